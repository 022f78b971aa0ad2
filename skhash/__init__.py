"""scikit-learn estimators that turn vectors into short binary codes and search them."""

__version__ = "0.1.0"
