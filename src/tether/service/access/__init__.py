"""Who may do what: API keys with roles, and how many requests each may send."""
