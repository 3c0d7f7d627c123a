"""A scheduler of one's own, as ms-swift's plugins have it: every answer that is not a sentence is asked for again."""
from swift.plugin.multi_turn import MultiTurnScheduler, multi_turns


class AskAgain(MultiTurnScheduler):
    def check_finished(self, infer_request, response_choice, current_turn):
        if response_choice.message.content.rstrip().endswith((".", "!", "?")):
            return True
        return super().check_finished(infer_request, response_choice, current_turn)

    def step(self, infer_request, response_choice, current_turn):
        infer_request.messages.append({"role": "user", "content": "Answer in a sentence."})
        return {"infer_request": infer_request}


multi_turns["ask_again"] = AskAgain
