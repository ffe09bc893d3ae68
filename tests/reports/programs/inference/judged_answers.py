# report: "https://github.com/generative-computing/mellea/pull/544"
# topic: "inference"
# kind: "leak"
# symptom: "device memory grows with every instruct() call until it runs out, each call being an answer and some judgements of it"
# cause: "the output of generate(), with its scores and its cache of keys and values, is kept in _meta['hf_output'] of the answer and never cleaned up; clearing it once the text is decoded repairs it"
# devices: ["cpu", "npu"]
# memory: "1GiB"
# holder: ["hf_output", "_meta", "ctx", "history"]
# mebibytes: [20, 36]
# remedy: "release"
# options: []
# fixed: True
import os
import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel

DEV = os.environ.get("DEV", "cpu")
if DEV == "npu":
    import torch_npu  # noqa: F401

torch.set_num_threads(1)
torch.manual_seed(0)


class ModelOutputThunk:
    def __init__(self, value, hf_output):
        self.value = value
        self._meta = {"hf_output": hf_output}


class Session:
    def __init__(self):
        config = GPT2Config(vocab_size=6000, n_embd=192, n_layer=3, n_head=4, bos_token_id=1, eos_token_id=None)
        self.model = GPT2LMHeadModel(config).to(DEV).eval()
        self.ctx = []

    def generate_from_context(self, prompt, tokens):
        output = self.model.generate(  # BLAME
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=tokens,
            do_sample=False,
            return_dict_in_generate=True,
            output_scores=True,
            pad_token_id=0,
        )
        mot = ModelOutputThunk(output.sequences[0, prompt.shape[1] :].tolist(), output)
        if "fixed" in sys.argv:
            mot._meta.clear()
        self.ctx.append(mot)  # BLAME
        return mot

    def instruct(self, prompt, requirements):
        answer = self.generate_from_context(prompt, tokens=12)
        for requirement in requirements:
            text = torch.tensor([[*requirement, *answer.value]], device=DEV)
            verdict = self.generate_from_context(text, tokens=4)
            if verdict.value[0] % 2 == 0:
                break
        return answer.value


def main():
    session = Session()
    requirements = [[11, 12, 13], [21, 22, 23, 24], [31, 32]]
    for number in range(20):
        prompt = torch.randint(2, 6000, (1, 224), device=DEV)
        words = session.instruct(prompt, requirements)
        if number % 4 == 3:
            used = f", {torch.npu.memory_allocated() / 2**20:.1f} MiB in use" if DEV == "npu" else ""
            print(f"instruction {number}: {words[:4]}, {len(session.ctx)} outputs{used}", flush=True)


main()
