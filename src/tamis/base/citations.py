"""The papers behind the methods, as estimators name them; the keys are those of docs/references.bib."""

AIOLLI2015 = (
    "Aiolli, Fabio; Donini, Michele (2015). EasyMKL: a scalable multiple kernel learning algorithm. Neurocomputing."
)

BIEN2011 = (
    "Bien, Jacob; Tibshirani, Robert (2011). Prototype selection for interpretable classification. The Annals of "
    "Applied Statistics."
)

HOSSEINI2019 = (
    "Hosseini, Babak; Hammer, Barbara (2019). Interpretable Multiple-Kernel Prototype Learning for Discriminative "
    "Representation and Feature Selection. CIKM."
)

LIU2015 = (
    "Liu, Xinwang; Wang, Lei; Yin, Jianping; Dou, Yong; Zhang, Jian (2015). Absent Multiple Kernel Learning. "
    "Proceedings of the AAAI Conference on Artificial Intelligence."
)

RAKOTOMAMONJY2008 = (
    "Rakotomamonjy, Alain; Bach, Francis; Canu, Stephane; Grandvalet, Yves (2008). SimpleMKL. "
    "Journal of Machine Learning Research."
)

SCHLEIF2011 = (
    "Schleif, Frank-Michael; Villmann, Thomas; Hammer, Barbara; Schneider, Petra (2011). Efficient kernelized "
    "prototype based classification. International Journal of Neural Systems."
)

WESTON2000 = (
    "Weston, Jason; Mukherjee, Sayan; Chapelle, Olivier; Pontil, Massimiliano; Poggio, Tomaso; Vapnik, Vladimir "
    "(2000). Feature selection for SVMs. Advances in Neural Information Processing Systems."
)

XUESONG2020 = (
    "Xue, Hui; Song, Yu (2020). Non-convex approximation based l0-norm multiple indefinite kernel feature selection. "
    "Applied Intelligence."
)

ZHANG2022 = (
    "Zhang, Zhiwang; He, Jing; Cao, Jie; Li, Shuqing; Li, Xingsen; Zhang, Kai; Wang, Pingjiang; Shi, Yong (2022). "
    "An explainable multi-sparsity multi-kernel nonconvex optimization least-squares classifier method via ADMM. "
    "Neural Computing and Applications."
)

ZHU2023 = "Zhu, Bin; Shi, Yijie (2023). MKL-L0/1-SVM."
