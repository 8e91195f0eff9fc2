"""IMKPL: prototypes in a learned mean of kernels [Hosseini2019]."""
