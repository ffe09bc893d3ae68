# kind: "host memory"
# cause: "A log handler of the program's own keeps all formatted lines for a status page."
# what: "Python objects"
# holder: ["lines"]
# mebibytes: [62, 84]
import logging
import time

logger = logging.getLogger("crawler")


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class StatusPage(logging.Handler):
    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append(self.format(record))  # BLAME


def crawl(number):
    links = [f"https://example.org/{number}/{place}" for place in range(40)]
    for place in range(0, 40, 4):
        logger.warning("page %d: broken links %s", number, " ".join(links[place : place + 4]) * 25)


def main():
    page = StatusPage()
    page.setFormatter(logging.Formatter("%(levelname)s %(name)s %(message)s"))
    logger.addHandler(page)
    logger.propagate = False
    start = resident()
    for number in range(2800):
        crawl(number)
        time.sleep(0.0009)
    kept = sum(map(len, page.lines)) / 2**20
    print(f"truth: {kept:.1f} resident: {resident() - start:.1f}")


main()
