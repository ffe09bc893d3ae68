# kind: "host memory"
# cause: "A worker process keeps the text of each document in a dict by number."
# what: "Python objects"
# holder: ["places"]
# mebibytes: [70, 95]
# fixed: "A worker process keeps the text of the last documents in a dict by number modulo 100."
import multiprocessing
import sys
import time

IS_FIXED = "fixed" in sys.argv


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class Index:
    def __init__(self):
        self.places = {}

    def add(self, number, text):
        self.places[number % 100 if IS_FIXED else number] = text  # BLAME


def work(requests, answers):
    index = Index()
    start = resident()
    while (number := requests.get()) is not None:
        index.add(number, f"title {number:07} " * 2200)  # BLAME
    kept = sum(len(word) for word in index.places.values()) / 2**20
    answers.put((kept, resident() - start))


def main():
    context = multiprocessing.get_context("fork")
    requests, answers = context.Queue(maxsize=20), context.Queue()
    worker = context.Process(target=work, args=(requests, answers))
    worker.start()
    for number in range(2800):
        requests.put(number)
        time.sleep(0.0010)
    requests.put(None)
    kept, grown = answers.get()
    worker.join()
    print(f"truth: {kept:.1f} resident: {grown:.1f}")


main()
