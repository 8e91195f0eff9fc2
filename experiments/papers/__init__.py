"""The papers, in the order of their numbers."""

from experiments.paper import Paper
from experiments.papers.absent_mkl import ABSENT_MKL
from experiments.papers.em2nolc import EM2NOLC
from experiments.papers.imkpl import IMKPL
from experiments.papers.l0_mkl import L0_MKL
from experiments.papers.l01_svm import L01_SVM

PAPERS: dict[str, Paper] = {paper.name: paper for paper in (EM2NOLC, L0_MKL, L01_SVM, IMKPL, ABSENT_MKL)}
