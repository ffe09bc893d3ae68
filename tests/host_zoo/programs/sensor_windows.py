# kind: "host memory"
# cause: "A dict has a list of arrays per sensor, which gets one array per measurement and is never cut."
# what: "NumPy arrays"
# holder: ["windows"]
# mebibytes: [75, 102]
# fixed: "A dict has a list of arrays per sensor, which is cut to the last twenty after each measurement."
import sys
import time

import numpy as np

IS_FIXED = "fixed" in sys.argv


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class Vibration:
    def __init__(self, sensors=8):
        self.windows = {f"sensor-{place}": [] for place in range(sensors)}
        self.alarms = 0

    def measure(self, sensor, number):
        samples = np.sin(np.arange(8000, dtype=np.float32) * (number + 1))  # BLAME
        spectrum = np.abs(np.fft.rfft(samples)).astype(np.float32)
        self.alarms += int(spectrum.argmax() > 3500)
        self.windows[sensor].append(samples)  # BLAME
        if IS_FIXED:
            del self.windows[sensor][:-20]


def main():
    vibration = Vibration()
    vibration.measure("sensor-0", 0)
    start = resident()
    for number in range(2900):
        vibration.measure(f"sensor-{number % 8}", number)
        time.sleep(0.0007)
    kept = sum(window.nbytes for windows in vibration.windows.values() for window in windows) / 2**20
    print(f"{vibration.alarms} alarms")
    print(f"truth: {kept:.1f} resident: {resident() - start:.1f}")


main()
