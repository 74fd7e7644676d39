"""The settings of a service: one TOML file."""
