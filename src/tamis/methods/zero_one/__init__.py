"""MKL-L0/1-SVM: the 0/1 loss on a learned mean of kernels [Zhu2023]."""
