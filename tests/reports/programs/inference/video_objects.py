# report: "https://github.com/ultralytics/ultralytics/pull/22969"
# topic: "inference"
# kind: "out of memory"
# symptom: "device memory grows with every frame of a video that is segmented, until long videos run out of it"
# cause: "the outputs of all earlier frames are kept in output_dict['non_cond_frame_outputs'], though only the last few are ever attended to; older ones are pruned after each frame"
# devices: ["npu"]
# memory: "512MiB"
# holder: ["non_cond_frame_outputs", "output_dict", "inference_state"]
# mebibytes: [190, 252]
# remedy: "release"
# options: []
# fixed: True
import sys

import torch
import torch_npu  # noqa: F401
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
SIZE, MEMORY_FRAMES = 512, 7


class Segmenter(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.image_encoder = nn.Sequential(nn.Conv2d(3, 32, 8, stride=8), nn.ReLU(), nn.Conv2d(32, width, 1))
        self.memory_encoder = nn.Conv2d(width + 1, width, 1)
        self.mask_decoder = nn.Conv2d(width, 1, 1)

    def track_step(self, frame, memories):
        features = self.image_encoder(frame)
        if memories:
            features = features + torch.stack([memory["maskmem_features"] for memory in memories]).mean(0)
        low_res = self.mask_decoder(features)
        masks = nn.functional.interpolate(low_res, size=(SIZE, SIZE), mode="bilinear")  # BLAME
        features = self.memory_encoder(torch.cat([features, low_res], dim=1))  # BLAME
        return {"maskmem_features": features, "pred_masks": masks}  # BLAME


class VideoPredictor:
    def __init__(self, objects):
        self.model = Segmenter().to("npu").eval()
        self.objects = objects
        self.inference_state = {"output_dict": {"cond_frame_outputs": {}, "non_cond_frame_outputs": {}}}

    def _prune_non_cond_memory(self, index):
        outputs = self.inference_state["output_dict"]["non_cond_frame_outputs"]
        for old in [number for number in outputs if number <= index - MEMORY_FRAMES]:
            outputs.pop(old)

    @torch.inference_mode()
    def inference(self, index, frame):
        output_dict = self.inference_state["output_dict"]
        kind = "non_cond_frame_outputs" if index else "cond_frame_outputs"
        earlier = [output_dict["non_cond_frame_outputs"].get(index - k) for k in range(1, MEMORY_FRAMES)]
        memories = [*output_dict["cond_frame_outputs"].values(), *filter(None, earlier)]
        output_dict[kind][index] = self.model.track_step(frame.expand(self.objects, -1, -1, -1), memories)  # BLAME
        if "fixed" in sys.argv:
            self._prune_non_cond_memory(index)
        return output_dict[kind][index]["pred_masks"] > 0


def main():
    predictor = VideoPredictor(objects=2)
    for index in range(150):
        frame = torch.rand(1, 3, SIZE, SIZE).to("npu")
        try:
            masks = predictor.inference(index, frame)
        except torch.OutOfMemoryError:
            print(f"frame {index}: {torch.npu.memory_allocated() / 2**20:.0f} MiB in use", flush=True)
            raise
        if index % 20 == 0:
            used = torch.npu.memory_allocated() / 2**20
            print(f"frame {index}: {masks.float().mean():.3f} of the pixels, {used:.0f} MiB in use", flush=True)


main()
