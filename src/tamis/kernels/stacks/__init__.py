"""The forms that a stack of kernels takes: dense, streaming, Chebyshev, factored, landmarks, device."""
