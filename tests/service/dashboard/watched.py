"""Something to watch that changes when it is told to."""

from threading import Event, Lock

from tether.rounds.errors import StoreError


class Counting:
    """Counts looks; shows `shown`, or fails while it is None; waits while it does not go on."""

    def __init__(self):
        self.looks, self.shown, self._lock = 0, {"value": 0}, Lock()
        self.goes_on = Event()
        self.goes_on.set()

    def look(self):
        with self._lock:
            self.looks += 1
        assert self.goes_on.wait(60)
        if self.shown is None:
            raise StoreError("no route")
        return self

    def parts(self):
        return dict(self.shown)
