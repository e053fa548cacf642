#include "unit/answer_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "each_case.h"

static void end_reasoning(answer_record *r)
{
  if (r->in_reasoning) yk_strbuf_append_str(&r->text, "»");
  r->in_reasoning = false;
}

static void begin_call(answer_record *r, const yk_answer_event *event)
{
  assert_int_equal(event->call, r->n_calls++);
  r->in_call = true;
  yk_strbuf_append_str(&r->text, "{");
  yk_strbuf_append(&r->text, event->id, event->n_id_bytes);
  if (event->id) yk_strbuf_append_str(&r->text, ":");
}

void answer_take(void *record, const yk_answer_event *event)
{
  answer_record *r = record;
  bool in_call = event->kind == YK_EVENT_ARGUMENTS || event->kind == YK_EVENT_CALL_END;
  assert_int_equal(r->in_call, in_call);
  if (in_call) assert_int_equal(event->call, r->n_calls - 1);
  if (event->kind == YK_EVENT_CALL_END) {
    yk_strbuf_append_str(&r->text, event->is_whole ? "}" : "!");
    r->has_broken |= !event->is_whole;
    r->in_call = false;
    return;
  }
  assert_true(event->n_bytes > 0);
  if (event->kind != YK_EVENT_REASONING) end_reasoning(r);
  if (event->kind == YK_EVENT_REASONING && !r->in_reasoning) {
    yk_strbuf_append_str(&r->text, "«");
    r->in_reasoning = true;
  }
  if (event->kind == YK_EVENT_CALL) begin_call(r, event);
  r->n_pieces += event->kind == YK_EVENT_ARGUMENTS;
  yk_strbuf_append(&r->text, event->text, event->n_bytes);
  if (event->kind == YK_EVENT_CALL) yk_strbuf_append_str(&r->text, "|");
}

/* The spans of special tokens in the text from begin to end. */
static size_t find_special(const answer_way *w, const char *text, size_t begin, size_t end, yk_text_span *out)
{
  size_t n = 0;
  for (size_t at = 0; text[at]; at++)
    for (const char *const *special = w->specials; *special; special++) {
      size_t stop = at + strlen(*special);
      if (strncmp(text + at, *special, strlen(*special)) != 0 || at >= end || stop <= begin) continue;
      out[n++] = (yk_text_span){at > begin ? at - begin : 0, (stop < end ? stop : end) - begin};
    }
  return n;
}

/* The pieces end at the offsets of `cuts`, and at the end. */
static answer_record parse(const answer_way *w, const char *text, const size_t *cuts, size_t n_cuts)
{
  answer_record r = {0};
  yk_answer_parser *parser;
  yk_text_span special[64];
  size_t begin = 0, length = strlen(text);
  const yk_answer_parser_options options = {.tools = w->tools,
                                            .reasoning = w->reasoning,
                                            .begins_inside = w->begins_inside,
                                            .only_first = w->only_first,
                                            .hides_special = w->hides_special,
                                            .schemas = w->schemas,
                                            .take = answer_take,
                                            .user = &r};
  assert_int_equal(yk_answer_parser_create(&options, &parser, NULL), YK_OK);
  for (size_t i = 0; i <= n_cuts; i++) {
    size_t end = i < n_cuts ? cuts[i] : length;
    yk_output output = {.has_token = true, .text = text + begin, .text_bytes = end - begin, .special = special};
    if (w->specials) output.n_special = find_special(w, text, begin, end, special);
    assert_int_equal(yk_answer_parser_push(parser, &output, NULL), YK_OK);
    begin = end;
  }
  assert_int_equal(yk_answer_parser_push(parser, &w->end, NULL), YK_OK);
  assert_false(r.in_call);
  end_reasoning(&r);
  assert_int_equal(yk_answer_parser_has_calls(parser), r.n_calls > 0 && !r.has_broken);
  yk_answer_parser_free(parser);
  return r;
}

static void check_cuts(const answer_way *w, const char *text, const size_t *cuts, size_t n_cuts, const char *expected)
{
  answer_record r = parse(w, text, cuts, n_cuts);
  assert_string_equal(r.text.data ? r.text.data : "", expected);
  yk_strbuf_free(&r.text);
}

void answer_check_once(const answer_way *way, const char *text, const char *expected)
{
  check_cuts(way, text, NULL, 0, expected);
}

void answer_check(const answer_way *way, const char *text, const char *expected)
{
  size_t n = strlen(text), cuts[1024];
  assert_true(n < 1024);
  check_cuts(way, text, NULL, 0, expected);
  for (size_t i = 0; i <= n; i++) check_cuts(way, text, &i, 1, expected);
  for (size_t i = 0; i <= n; i += 3)
    for (size_t j = i; j <= n; j += 2) check_cuts(way, text, (size_t[]){i, j}, 2, expected);
  for (size_t i = 0; i < n; i++) cuts[i] = i;
  check_cuts(way, text, cuts, n, expected);
}

void answer_check_samples(const answer_way *way, const answer_sample *rows, size_t n)
{
  for (size_t i = 0; each_case(i, i < n); i++)
    answer_check(way, rows[i].text, rows[i].expected ? rows[i].expected : rows[i].text);
}
