"""Any run of a `Controller` behind HTTP: actions, outcomes, and rounds that begin beside."""
