/* openai_answer_fixture.h - answers to requests, to which tests push outputs. Without an engine a token's text is
 * "token_id:5". */
#ifndef TESTS_UNIT_OPENAI_ANSWER_FIXTURE_H
#define TESTS_UNIT_OPENAI_ANSWER_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "openai/answer.h"
#include "openai/protocol.h"
#include "unit/openai_fixture.h"
#include "unit/single_quotes.h"

/* A request, its answer, and its output. */
typedef struct session {
  yk_openai_request request;
  yk_token_texts *texts;
  yk_openai_answer *answer;
  yk_strbuf out;
} session;

static inline void give_ids(yk_openai_request *request)
{
  for (size_t i = 0; i < request->n_prompts; i++) {
    if (request->prompts[i].ids) continue;
    request->prompts[i].ids = calloc(3, sizeof(int32_t));
    request->prompts[i].n_ids = 3;
  }
}

static inline session *open_reasoning_session(yk_openai_form form, const char *body, const yk_reasoning *reasoning)
{
  session *s = calloc(1, sizeof *s);
  s->request = openai_request(form, body);
  s->request.reasoning = reasoning;
  give_ids(&s->request);
  assert_int_equal(yk_token_texts_create(NULL, &s->texts, NULL), YK_OK);
  yk_openai_answer_options options = {.id = form == YK_FORM_CHAT ? "chatcmpl-1" : "cmpl-1",
                                      .model = "m\"1",
                                      .created_s = 7,
                                      .texts = s->texts,
                                      .has_text = true,
                                      .with_cached_tokens = true};
  assert_int_equal(yk_openai_answer_create(&s->request, &options, &s->answer, NULL), YK_OK);
  return s;
}

static inline session *open_embeddings(const char *body)
{
  session *s = calloc(1, sizeof *s);
  s->request = openai_request(YK_FORM_EMBEDDING, body);
  s->request.protocol = &yk_protocol_embeddings;
  const yk_openai_answer_options options = {.id = "embd-1", .model = "m", .created_s = 7};
  assert_int_equal(yk_openai_answer_create(&s->request, &options, &s->answer, NULL), YK_OK);
  return s;
}

static inline session *open_session(yk_openai_form form, const char *body)
{
  return open_reasoning_session(form, body, NULL);
}

static inline void close_session(session *s)
{
  yk_openai_answer_free(s->answer);
  yk_token_texts_free(s->texts);
  yk_openai_request_free(&s->request);
  yk_strbuf_free(&s->out);
  free(s);
}

static inline yk_output token(int32_t id, const char *text)
{
  return (yk_output){.has_token = true, .token_id = id, .logprob = -1.5f, .text = text, .text_bytes = strlen(text)};
}

static inline void push_output(session *s, size_t choice, const yk_output *output, bool joins)
{
  yk_request_usage usage = {.reused_tokens = 2};
  assert_int_equal(yk_openai_answer_push(s->answer, choice, output, output->finish ? &usage : NULL, joins,
                                         s->request.stream ? &s->out : NULL, NULL),
                   YK_OK);
}

static inline void push(session *s, size_t choice, int32_t id, const char *text)
{
  yk_output output = token(id, text);
  push_output(s, choice, &output, false);
}

static inline void end(session *s, size_t choice, yk_finish_reason finish, const char *text)
{
  push_output(s, choice, &(yk_output){.finish = finish, .text = text, .text_bytes = strlen(text)}, false);
}

static inline void flush(session *s, size_t choice)
{
  assert_int_equal(yk_openai_answer_flush(s->answer, choice, s->request.stream ? &s->out : NULL, NULL), YK_OK);
}

static inline void finish(session *s)
{
  assert_int_equal(yk_openai_answer_finish(s->answer, &s->out, NULL), YK_OK);
}

/* The text written since the last call; expected has ' in place of ". */
static inline void expect(session *s, const char *expected)
{
  char *copy = double_quoted(expected);
  assert_string_equal(s->out.data ? s->out.data : "", copy);
  yk_strbuf_clear(&s->out);
  free(copy);
}

#define HEAD     "{'id':'cmpl-1','object':'text_completion','created':7,'model':'m\\'1','choices':["
#define CHUNK    "data: {'id':'chatcmpl-1','object':'chat.completion.chunk','created':7,'model':'m\\'1','choices':["
#define CHAT     "{'id':'chatcmpl-1','object':'chat.completion','created':7,'model':'m\\'1','choices':["
#define DONE     "data: [DONE]\n\n"
#define MESSAGES "'messages': [{'role': 'user', 'content': 'x'}]"
#define TOOLS    "'tools': [{'type': 'function', 'function': {'name': 'f'}}]"

#define USAGE(prompt, output, total)                                                                                   \
  "'usage':{'prompt_tokens':" prompt ",'completion_tokens':" output ",'total_tokens':" total                           \
  ",'prompt_tokens_details':{'cached_tokens':2}}}"

#endif
