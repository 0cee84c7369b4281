"""An app that cannot be imported."""

raise RuntimeError("the settings are missing")
