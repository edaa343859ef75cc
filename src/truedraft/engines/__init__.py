"""What truedraft does inside other engines' environments, and to their releases. Needs no torch."""

__all__: list[str] = []
