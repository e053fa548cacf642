/* answer_write.h - the state of an answer, and functions that write its parts. For answer_push.c. */
#ifndef YK_OPENAI_ANSWER_WRITE_H
#define YK_OPENAI_ANSWER_WRITE_H

#include "openai/answer.h"
#include "openai/logprob_lists.h"
#include "openai/parse/answer_parser.h"

/* Pushed output of a choice that no event contains yet; of an answer that is not streamed, all output. */
typedef struct yk_answer_choice {
  yk_openai_answer *answer;
  size_t index;
  yk_strbuf text, reasoning; /* escaped */
  yk_strbuf calls;           /* elements of tool_calls; the last is open if open_call is not -1 */
  yk_strbuf ids;             /* separated by commas */
  yk_strbuf prompt_logprobs; /* separated by commas */
  yk_strbuf stop_reason;     /* JSON; empty: null */
  yk_logprob_lists logprobs;
  yk_token_walk walk, prompt_walk; /* over the tokens of logprobs, and of prompt_logprobs */
  yk_answer_parser *parser;        /* NULL: every text is content */
  int32_t open_call;
  bool has_prompt;         /* the prompt's first token is in the lists */
  bool has_begun;          /* the role or the echo has been written */
  bool has_written_prompt; /* the requested details of the prompt have been written */
  bool is_due;             /* an event is pending */
  int32_t n_output, n_cached;
  int32_t n_reasoning; /* tokens of the output that belong to reasoning, its tags included */
  int32_t n_reported;  /* tokens of the output that are in events */
  int32_t last_id;     /* of the output */
  yk_finish_reason finish;
} yk_answer_choice;

struct yk_openai_answer {
  const yk_openai_request *request;
  yk_openai_answer_options options; /* without id and model */
  yk_strbuf head;                   /* beginning of every event, up to the list of choices */
  char *call_id;                    /* prefix of the ids of tool calls */
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

/* yk_answer_prompt_of - the prompt of a choice. */
const yk_openai_prompt *yk_answer_prompt_of(const yk_answer_choice *c);

/* yk_answer_take_event - callback of the parser: adds an event to the choice that user points to. */
void yk_answer_take_event(void *user, const yk_answer_event *event);

/* yk_answer_append_choice - append all pending output as an element of "choices". */
void yk_answer_append_choice(yk_answer_choice *c, yk_strbuf *out);

/* yk_answer_write_event - write all pending output as an event. There may be none while the parser holds back the
 *   beginning of a tool call, or leaves out reasoning. */
void yk_answer_write_event(yk_answer_choice *c, yk_strbuf *out);

/* yk_answer_append_prompt - append the requested details of a choice's prompt, once: for a completion next to its text,
 *   for a chat next to the choices. */
void yk_answer_append_prompt(yk_answer_choice *c, yk_strbuf *out);

/* yk_answer_end_event - append the part of an event behind the choices. */
void yk_answer_end_event(yk_answer_choice *c, yk_strbuf *out);

/* yk_answer_append_total_usage - append "usage" of all choices. A prompt counts once, for any number of samples. */
void yk_answer_append_total_usage(const yk_openai_answer *answer, yk_strbuf *out);

#endif
