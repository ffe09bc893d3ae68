"""The words of the domain: enums and small dataclasses that every layer shares."""
