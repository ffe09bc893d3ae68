# kind: "host memory"
# cause: "Exceptions are kept for a report, and their tracebacks keep the frames with all local variables."
# what: "Python objects"
# holder: ["failures"]
# mebibytes: [82, 111]
# fixed: "Of failed requests only the message is kept, not the exception with its frames."
import json
import sys
import time

IS_FIXED = "fixed" in sys.argv


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class BadRequestError(Exception):
    pass


def parse(number):
    body = json.dumps({"user": number, "text": "hello " * 7000})  # BLAME
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
            self.failures.append(str(error) if IS_FIXED else error)  # BLAME
            return None


def kept_by(error):
    if IS_FIXED:
        return len(error)
    trace = error.__traceback__.tb_next
    return len(trace.tb_frame.f_locals["body"])


def main():
    gateway = Gateway()
    start = resident()
    for number in range(2400):
        gateway.serve(number)
        time.sleep(0.0008)
    grown = resident() - start
    kept = sum(map(kept_by, gateway.failures)) / 2**20
    print(f"truth: {kept:.1f} resident: {grown:.1f}")


main()
