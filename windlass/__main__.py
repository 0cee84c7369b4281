"""``python -m windlass`` is ``windlass``."""

from importlib import import_module

if __name__ == "__main__":
    import_module(f"{__package__}.cli").main()
