/* answer_write.h - an answer's state, and how its pieces are written. For answer_push.c. */
#ifndef YK_OPENAI_ANSWER_WRITE_H
#define YK_OPENAI_ANSWER_WRITE_H

#include "openai/answer.h"
#include "openai/logprob_lists.h"

/* Pushed output that no event has yet; of an answer that is no stream all of it. */
typedef struct yk_answer_choice {
  yk_openai_answer *answer;
  size_t index;
  yk_strbuf text;            /* escaped */
  yk_strbuf calls;           /* elements of tool_calls; the last is open where open_call is not -1 */
  yk_strbuf ids;             /* with commas between */
  yk_strbuf prompt_logprobs; /* likewise */
  yk_strbuf stop_reason;     /* JSON; empty: null */
  yk_logprob_lists logprobs;
  yk_token_walk walk, prompt_walk; /* over the tokens of logprobs, and of prompt_logprobs */
  yk_tool_parser *parser;          /* NULL where calls are not looked for */
  int32_t open_call;
  bool has_prompt;      /* the prompt's first token is in the lists */
  bool has_begun;       /* the role or the echo has been told */
  bool has_told_prompt; /* what is asked to be told of it */
  bool is_due;          /* an event is to be written */
  int32_t n_output, n_cached;
  int32_t n_told;  /* of the output's tokens, those in events */
  int32_t last_id; /* of the output */
  yk_finish_reason finish;
} yk_answer_choice;

struct yk_openai_answer {
  const yk_openai_request *request;
  yk_openai_answer_options options; /* without id and model */
  yk_strbuf head;                   /* what every event begins with, up to the list of choices */
  char *call_id;                    /* what the ids of tool calls begin with */
  size_t n_choices;
  yk_answer_choice choices[];
};

static inline bool yk_answer_is_chat(const yk_openai_answer *answer)
{
  return answer->request->form == YK_FORM_CHAT;
}

static inline bool yk_answer_has_logprobs(const yk_openai_answer *answer)
{
  return answer->request->sampling.n_logprobs >= 0;
}

/* yk_answer_prompt_of - the prompt that a choice continues. */
const yk_openai_prompt *yk_answer_prompt_of(const yk_answer_choice *c);

/* yk_answer_take_tool_event - what a parser of tool calls finds, into the choice that user points to. */
void yk_answer_take_tool_event(void *user, const yk_tool_event *event);

/* yk_answer_append_choice - all that is pending, as an element of "choices". */
void yk_answer_append_choice(yk_answer_choice *c, yk_strbuf *out);

/* yk_answer_write_event - what is pending as an event, after which nothing is. While a tool call is being made out
 *   there may be nothing to say. */
void yk_answer_write_event(yk_answer_choice *c, yk_strbuf *out);

/* yk_answer_append_prompt - what is asked to be told of a choice's prompt, once: a completion's beside its text, a
 *   chat's beside the choices. */
void yk_answer_append_prompt(yk_answer_choice *c, yk_strbuf *out);

/* yk_answer_end_event - what stands behind the choices of an event. */
void yk_answer_end_event(yk_answer_choice *c, yk_strbuf *out);

/* yk_answer_append_total_usage - "usage" of all choices. A prompt counts once, however many samples it has. */
void yk_answer_append_total_usage(const yk_openai_answer *answer, yk_strbuf *out);

#endif
