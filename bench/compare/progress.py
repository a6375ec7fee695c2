"""A bar with the time left on a terminal; elsewhere a line now and then."""
import shutil
import sys
import time

LINE_EVERY_S = 15


def duration(seconds):
    seconds = int(max(0, seconds))
    hours, minutes = seconds // 3600, seconds // 60 % 60
    return f"{hours}:{minutes:02d}:{seconds % 60:02d}" if hours else f"{minutes}:{seconds % 60:02d}"


class Progress:
    def __init__(self, total, stream=sys.stderr, clock=time.monotonic):
        self.total, self.done, self.stream, self.clock = total, 0, stream, clock
        self.began = self.told = clock()
        self.drawn = False

    def left_s(self):
        """From the pace so far; None before there is one."""
        return (self.clock() - self.began) / self.done * (self.total - self.done) if self.done else None

    def text(self, what, width):
        left = self.left_s()
        numbers = f"{self.done}/{self.total}, {duration(left) + ' left' if left is not None else 'starting'}"
        return f"{self.bar()} {numbers}: {what}"[:width]

    def bar(self, width=24):
        full = width * self.done // self.total if self.total else width
        return "[" + "#" * full + "." * (width - full) + "]"

    def step(self, what, count=0):
        """`count` more are done, and `what` is under way."""
        self.done += count
        if self.stream.isatty():
            width = shutil.get_terminal_size().columns - 1
            self.stream.write("\r\033[K" + self.text(what, width))
            self.drawn = True
        elif self.clock() - self.told >= LINE_EVERY_S:
            self.told = self.clock()
            self.stream.write(self.text(what, 160) + "\n")
        self.stream.flush()

    def say(self, line):
        """A line that stays."""
        self.clear()
        self.stream.write(line + "\n")
        self.stream.flush()

    def clear(self):
        if self.drawn:
            self.stream.write("\r\033[K")
            self.drawn = False
