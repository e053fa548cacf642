/* answer_write.h - the state of an answer, and the interface of its writers: answer_push.c counts tokens and parses
 * their texts; a writer turns the parser's events into the events or the object of one protocol. */
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

/* Answers of responses and messages are lists of blocks, one after another: a text, reasoning, a call. */
typedef enum yk_block_kind { YK_BLOCK_NONE, YK_BLOCK_TEXT, YK_BLOCK_REASONING, YK_BLOCK_CALL } yk_block_kind;

/* The blocks of an answer with one choice; see answer_blocks.h. */
typedef struct yk_answer_blocks {
  yk_block_kind kind;      /* of the open block; NONE: none is open */
  int32_t index;           /* of the open block, or of the next one */
  yk_strbuf name, call_id; /* of a call; escaped */
  yk_strbuf text;          /* of the open block, a call's arguments; escaped */
  yk_strbuf arguments;     /* of a call, as written */
  size_t n_written;        /* bytes of text that are in events */
  bool is_whole;           /* of a call: its arguments are complete JSON */
  yk_strbuf events;        /* of a stream, to be written */
  yk_strbuf items;         /* blocks that have ended, as JSON, separated by commas */
  int64_t n_events;        /* of a response: written so far */
  bool failed;             /* an allocation of a buffer that has been cleared since */
} yk_answer_blocks;

/* How a protocol writes answers: of texts, or, with take_embedding and finish alone, of embeddings. All append to out;
 * a failed allocation shows in the choice's or the answer's buffers, which answer_push.c checks. */
typedef struct yk_answer_writer {
  const char *call_prefix;                                                   /* of the ids of tool calls */
  void (*take)(void *choice, const yk_answer_event *event);                  /* adds to the choice's pending output */
  yk_status (*begin)(yk_answer_choice *choice, yk_strbuf *out, yk_err *err); /* before the first output of a choice */
  void (*write)(yk_answer_choice *choice, yk_strbuf *out); /* of a stream: all pending output as events */
  void (*finish)(yk_openai_answer *answer,
                 yk_strbuf *out); /* every choice has ended: the stream's end, or the object */
  void (*fail)(yk_openai_answer *answer, const yk_openai_error *error, yk_strbuf *out); /* of a stream */
  void (*take_embedding)(yk_answer_choice *choice, const float *numbers, size_t n);
} yk_answer_writer;

/* OpenAI's completions and chat completions; its responses; Anthropic's messages; OpenAI's embeddings. */
extern const yk_answer_writer yk_answer_writer_choices, yk_answer_writer_responses, yk_answer_writer_messages,
    yk_answer_writer_embeddings;

struct yk_openai_answer {
  const yk_openai_request *request;
  const yk_answer_writer *writer;
  yk_openai_answer_options options; /* without id and model */
  yk_strbuf id, model;              /* JSON strings */
  yk_strbuf unique;                 /* the id without its prefix, escaped */
  yk_answer_blocks blocks;          /* of responses and messages */
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

/* yk_answer_append_call_id - append the id of a call that begins: the model's, else one of the answer's; escaped. */
void yk_answer_append_call_id(const yk_answer_choice *c, const yk_answer_event *event, yk_strbuf *out);

/* yk_answer_echoes_logprobs - whether the log-probabilities of the answer begin with the prompt's. */
bool yk_answer_echoes_logprobs(const yk_openai_answer *answer);

/* yk_answer_begin_prompt - add the prompt's first token, for which the engine has no log-probability, once. Errors:
 *   YK_E_NOMEM. */
yk_status yk_answer_begin_prompt(yk_answer_choice *c, yk_err *err);

/* Numbers of tokens. */
typedef struct yk_answer_usage {
  int64_t n_prompt, n_output, n_cached, n_reasoning;
} yk_answer_usage;

/* yk_answer_total_usage - of all choices. A prompt counts once, for any number of samples. */
yk_answer_usage yk_answer_total_usage(const yk_openai_answer *answer);

#endif
