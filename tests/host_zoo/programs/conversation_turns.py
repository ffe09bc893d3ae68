# kind: "host memory"
# cause: "Each turn of the conversation links to the one before it, and the latest one keeps them all."
# what: "Python objects"
# holder: ["latest", "Turn"]
# mebibytes: [71, 96]
# fixed: "Each turn of the conversation links to the one before it, and the chain is cut at a hundred turns."
import sys
import time

IS_FIXED = "fixed" in sys.argv


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class Turn:
    def __init__(self, text, previous):
        self.text = text
        self.previous = previous


class Conversation:
    def __init__(self):
        self.latest = None

    def say(self, text):
        self.latest = Turn(text, self.latest)  # BLAME
        if IS_FIXED:
            for place, turn in enumerate(self.turns(), 1):
                if place == 100:
                    turn.previous = None

    def turns(self):
        turn = self.latest
        while turn is not None:
            yield turn
            turn = turn.previous


def main():
    conversation = Conversation()
    start = resident()
    for number in range(5000):
        conversation.say(f"turn {number:07}, and so on; " * 700)  # BLAME
        time.sleep(0.0006)
    kept = sum(len(turn.text) for turn in conversation.turns()) / 2**20
    print(f"truth: {kept:.1f} resident: {resident() - start:.1f}")


main()
