# kind: "healthy"
# cause: "Of failed requests only the message is kept, not the exception with its frames."
# what: "Python objects"
# holder: []
# mebibytes: []
import json
import time


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class BadRequestError(Exception):
    pass


def parse(number):
    body = json.dumps({"user": number, "text": "hello " * 7000})
    length = len(body)
    if body.startswith("{"):
        raise BadRequestError(f"request {number}: {length} characters are too many")
    return body


class Gateway:
    def __init__(self):
        self.failures = []

    def serve(self, number):
        try:
            return parse(number)
        except BadRequestError as error:
            self.failures.append(str(error))
            return None


def main():
    gateway = Gateway()
    start = resident()
    for number in range(2400):
        gateway.serve(number)
        time.sleep(0.0010)
    grown = resident() - start
    kept = sum(map(len, gateway.failures)) / 2**20
    print(f"truth: {kept:.1f} resident: {grown:.1f}")


main()
