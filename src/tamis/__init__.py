"""tamis: classifiers and regressors that people can read: few features, few training cases, exact sums.

Names are loaded when they are first used; `__init__.pyi` lists them.
"""

import lazy_loader

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
