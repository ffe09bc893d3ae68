# Two processes, each leaks 256 KiB a step; the parent gets SIGTERM in the middle and its children die with it.
import multiprocessing, time, torch
def work(number, barrier):
    torch.set_num_threads(1); kept = []
    for i in range(20): kept.append(torch.ones(1 << 16)); torch.neg(kept[-1][:8])
    barrier.wait(); time.sleep(100)
if __name__ == "__main__":
    context = multiprocessing.get_context("fork"); barrier = context.Barrier(3)
    for number in range(2): context.Process(target=work, args=(number, barrier), daemon=True).start()
    barrier.wait(); print("ready", flush=True)
    time.sleep(100)
