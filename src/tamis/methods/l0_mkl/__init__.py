"""l0-MKL: few kernels, positive definite or not [XueSong2020]."""
