"""A reporter of progress for tests."""


class Counted:
    """A reporter that counts what is done."""

    def __init__(self):
        self.steps = {}

    def begin(self, description, total):
        self.steps[description] = [0, total]
        return description

    def advance(self, step, amount):
        self.steps[step][0] += amount

    def end(self, step):
        pass
