"""Operating a service: its state, metrics, health and logs, and the acts of people."""
