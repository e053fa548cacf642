/* Answers to completions and embeddings: the events of a stream and whole objects, byte for byte; failures. */
#include <math.h>
#include <stdio.h>

#include "base/json_tree.h"
#include "each_case.h"
#include "unit/openai_answer_fixture.h"

/* ---- Completions ------------------------------------------------------------------------------------------------- */

static void an_event_a_token(void **state)
{
  (void)state;
  session *s = open_session(YK_FORM_COMPLETION, "{'prompt': 'p', 'stream': true}");
  push(s, 0, 5, "a\"\n");
  expect(s, ""); /* the end may follow immediately */
  push(s, 0, 6, "");
  expect(s, "data: " HEAD "{'index':0,'text':'a\\'\\n','logprobs':null,'finish_reason':null}]}\n\n");
  flush(s, 0); /* half a character is held back: still an event */
  expect(s, "data: " HEAD "{'index':0,'text':'','logprobs':null,'finish_reason':null}]}\n\n");
  flush(s, 0);
  expect(s, "");
  push(s, 0, 7, "\xC3\xA9");
  end(s, 0, YK_FINISH_LENGTH, "!");
  expect(s, "data: " HEAD
            "{'index':0,'text':'\xC3\xA9!','logprobs':null,'finish_reason':'length','stop_reason':null}]}\n\n");
  finish(s);
  expect(s, DONE);
  close_session(s);
}

static void the_end_alone(void **state)
{
  (void)state;
  session *s = open_session(YK_FORM_COMPLETION, "{'prompt': 'p', 'stream': true}");
  push(s, 0, 5, "a");
  flush(s, 0);
  yk_strbuf_clear(&s->out);
  end(s, 0, YK_FINISH_STOP, "");
  expect(s, "data: " HEAD "{'index':0,'text':'','logprobs':null,'finish_reason':'stop','stop_reason':null}]}\n\n");
  close_session(s);
}

static void a_slow_client_gets_several_tokens_at_once(void **state)
{
  (void)state;
  session *s = open_session(YK_FORM_COMPLETION, "{'prompt': 'p', 'stream': true, 'return_token_ids': true}");
  for (int32_t i = 0; i < 3; i++) {
    yk_output output = token(i, "ab");
    push_output(s, 0, &output, true);
  }
  flush(s, 0);
  expect(s, "data: " HEAD "{'index':0,'text':'ababab','logprobs':null,'finish_reason':null,'token_ids':[0,1,2],"
            "'prompt_token_ids':[0,0,0]}]}\n\n");
  close_session(s);
}

/* The first token has a separate event, so that its time is visible; the end is in the event of the available text. */
static void several_tokens_an_event(void **state)
{
  (void)state;
  session *s = open_session(YK_FORM_COMPLETION, "{'prompt': 'p', 'stream': true, 'stream_interval': 3}");
  static const char *const texts[] = {"a", "bcd", "efg", "h"};
  for (int32_t i = 0; i < 8; i++) {
    push(s, 0, i, (char[]){(char)('a' + i), '\0'});
    flush(s, 0);
  }
  end(s, 0, YK_FINISH_LENGTH, "");
  const char *at = s->out.data;
  for (size_t i = 0; each_case(i, i < sizeof texts / sizeof *texts); i++) {
    char expected[32];
    snprintf(expected, sizeof expected, "\"text\":\"%s\"", texts[i]);
    at = strstr(at, "\"text\"");
    assert_memory_equal(at, expected, strlen(expected));
    at++;
  }
  assert_null(strstr(at, "\"text\""));
  assert_non_null(strstr(at, "\"finish_reason\":\"length\""));
  close_session(s);
}

static void choices_of_a_stream(void **state)
{
  (void)state;
  session *s = open_session(YK_FORM_COMPLETION, "{'prompt': [[1], [2, 3]], 'n': 2, 'stream': true, 'stream_options': "
                                                "{'include_usage': true, 'continuous_usage_stats': true}}");
  push(s, 3, 5, "a");
  push(s, 0, 6, "b");
  flush(s, 3);
  expect(s, "data: " HEAD "{'index':3,'text':'a','logprobs':null,'finish_reason':null}],'usage':{'prompt_tokens':2,"
            "'completion_tokens':1,'total_tokens':3,'prompt_tokens_details':{'cached_tokens':0}}}\n\n");
  for (size_t i = 0; i < 4; i++) end(s, i, YK_FINISH_STOP, "");
  yk_strbuf_clear(&s->out);
  finish(s); /* a prompt counts once */
  expect(s, "data: " HEAD "],'usage':{'prompt_tokens':3,'completion_tokens':2,'total_tokens':5,'prompt_tokens_details':"
            "{'cached_tokens':4}}}\n\n" DONE);
  close_session(s);
}

static void whole_completions(void **state)
{
  (void)state;
  session *s = open_session(YK_FORM_COMPLETION, "{'prompt': [[1], [2, 3]], 'n': 2, 'return_token_ids': true}");
  for (size_t i = 0; i < 4; i++) {
    push(s, i, 5, "a");
    flush(s, i);
    if (i == 2) push(s, i, 6, "b");
    end(s, i, i ? YK_FINISH_LENGTH : YK_FINISH_STOP, "");
  }
  finish(s);
  expect(s, HEAD "{'index':0,'text':'a','logprobs':null,'finish_reason':'stop','stop_reason':null,'token_ids':[5],'"
                 "prompt_token_ids':[1]},"
                 "{'index':1,'text':'a','logprobs':null,'finish_reason':'length','stop_reason':null,'token_ids':[5],'"
                 "prompt_token_ids':[1]},"
                 "{'index':2,'text':'ab','logprobs':null,'finish_reason':'length','stop_reason':null,'token_ids':[5,6],"
                 "'prompt_token_ids':[2,3]},"
                 "{'index':3,'text':'a','logprobs':null,'finish_reason':'length','stop_reason':null,'token_ids':[5],"
                 "'prompt_token_ids':[2,3]}],'usage':"
                 "{'prompt_tokens':3,'completion_tokens':5,'total_tokens':8,'prompt_tokens_details':"
                 "{'cached_tokens':4}}}");
  close_session(s);
}

static void push_with_top(session *s, size_t choice, bool is_prompt, int32_t id, const char *text)
{
  yk_output output = token(id, text);
  output.is_prompt = is_prompt;
  output.n_top = 2;
  output.top_ids = (int32_t[]){9, id};
  output.top_logprobs = (float[]){-0.25f, output.logprob};
  push_output(s, choice, &output, false);
}

/* lm-evaluation-harness reads the prompt's log-probabilities from here. */
static void echo_with_logprobs(void **state)
{
  (void)state;
  session *s = open_session(YK_FORM_COMPLETION, "{'prompt': [4, 5], 'echo': true, 'logprobs': 1, 'max_tokens': 1}");
  push_with_top(s, 0, true, 5, "");
  push_with_top(s, 0, false, 6, "x");
  end(s, 0, YK_FINISH_LENGTH, "");
  finish(s);
  expect(s, HEAD "{'index':0,'text':'x','logprobs':{'tokens':['token_id:4','token_id:5','token_id:6'],"
                 "'token_logprobs':[null,-1.5,-1.5],'top_logprobs':[null,{'token_id:9':-0.25,'token_id:5':-1.5},"
                 "{'token_id:9':-0.25,'token_id:6':-1.5}],'text_offset':[0,10,20]},'finish_reason':'length','stop_"
                 "reason':null}]," USAGE("2", "1", "3"));
  close_session(s);
}

static void echo_of_a_prompt_alone(void **state)
{
  (void)state;
  session *s = open_session(YK_FORM_COMPLETION, "{'prompt': 'p\\n', 'echo': true, 'max_tokens': 0}");
  push_with_top(s, 0, true, 5, "");
  end(s, 0, YK_FINISH_LENGTH, "");
  finish(s);
  expect(s, HEAD "{'index':0,'text':'p\\n','logprobs':null,'finish_reason':'length','stop_reason':null}]," USAGE(
                "3", "0", "3"));
  close_session(s);
  s = open_session(YK_FORM_COMPLETION, "{'prompt': [4], 'echo': true, 'max_tokens': 0, 'logprobs': 0}");
  end(s, 0, YK_FINISH_LENGTH, ""); /* a prompt of one token has no log-probabilities */
  finish(s);
  expect(s, HEAD "{'index':0,'text':'','logprobs':{'tokens':['token_id:4'],'token_logprobs':[null],'top_logprobs':"
                 "[null],'text_offset':[0]},'finish_reason':'length','stop_reason':null}]," USAGE("1", "0", "1"));
  close_session(s);
}

static void echo_in_a_stream(void **state)
{
  (void)state;
  session *s = open_session(YK_FORM_COMPLETION, "{'prompt': 'p', 'echo': true, 'stream': true}");
  push(s, 0, 6, "x");
  expect(s, "data: " HEAD "{'index':0,'text':'p','logprobs':null,'finish_reason':null}]}\n\n");
  end(s, 0, YK_FINISH_LENGTH, "");
  expect(s, "data: " HEAD "{'index':0,'text':'x','logprobs':null,'finish_reason':'length','stop_reason':null}]}\n\n");
  close_session(s);
}

static void logprobs_in_a_stream(void **state)
{
  (void)state;
  session *s = open_session(YK_FORM_COMPLETION, "{'prompt': 'p', 'logprobs': 2, 'stream': true}");
  for (int i = 0; i < 2; i++) {
    push_with_top(s, 0, false, 6 + i, "");
    flush(s, 0);
  }
  expect(s, "data: " HEAD "{'index':0,'text':'','logprobs':{'tokens':['token_id:6'],'token_logprobs':[-1.5],"
            "'top_logprobs':[{'token_id:9':-0.25,'token_id:6':-1.5}],'text_offset':[0]},'finish_reason':null}]}\n\n"
            "data: " HEAD "{'index':0,'text':'','logprobs':{'tokens':['token_id:7'],'token_logprobs':[-1.5],"
            "'top_logprobs':[{'token_id:9':-0.25,'token_id:7':-1.5}],'text_offset':[10]},'finish_reason':null}]}\n\n");
  yk_output never = token(8, "");
  never.logprob = -INFINITY;
  push_output(s, 0, &never, false);
  end(s, 0, YK_FINISH_STOP, "");
  expect(s,
         "data: " HEAD "{'index':0,'text':'','logprobs':{'tokens':['token_id:8'],'token_logprobs':[null],"
         "'top_logprobs':[{'token_id:8':null}],'text_offset':[20]},'finish_reason':'stop','stop_reason':null}]}\n\n");
  close_session(s);
}

/* The likelier of two tokens with one text counts. A token that the engine ranks beyond the requested number is left
 * out. */
static void top_logprobs_have_each_text_once(void **state)
{
  (void)state;
  session *s = open_session(YK_FORM_COMPLETION, "{'prompt': [4], 'logprobs': 3, 'stream': true}");
  yk_output output = token(6, "");
  output.n_top = 4;
  output.top_ids = (int32_t[]){9, 9, 6, 5};
  output.top_logprobs = (float[]){-1, -2, -1.5f, -4};
  push_output(s, 0, &output, false);
  flush(s, 0);
  assert_non_null(strstr(s->out.data, "\"top_logprobs\":[{\"token_id:9\":-1.0,\"token_id:6\":-1.5}]"));
  close_session(s);
}

static void prompt_logprobs(void **state)
{
  (void)state;
  session *s = open_session(YK_FORM_COMPLETION, "{'prompt': [4, 5, 6], 'prompt_logprobs': 1, 'max_tokens': 0}");
  push_with_top(s, 0, true, 5, "");
  yk_output unranked = token(6, "");
  unranked.is_prompt = true;
  push_output(s, 0, &unranked, false);
  end(s, 0, YK_FINISH_LENGTH, "");
  finish(s);
  expect(s, HEAD
         "{'index':0,'text':'','logprobs':null,'finish_reason':'length','stop_reason':null,'prompt_logprobs':[null,"
         "{'5':{'logprob':-1.5,'rank':2,'decoded_token':'token_id:5'},'9':{'logprob':-0.25,'rank':1,"
         "'decoded_token':'token_id:9'}},{'6':{'logprob':-1.5,'rank':null,'decoded_token':'token_id:6'}}]}]," USAGE(
             "3", "0", "3"));
  close_session(s);
}

/* ---- Failures ---------------------------------------------------------------------------------------------------- */

static void a_stream_fails(void **state)
{
  (void)state;
  session *s = open_session(YK_FORM_COMPLETION, "{'prompt': 'p', 'stream': true}");
  yk_err err = YK_ERR_INIT;
  yk_openai_error error;
  yk_err_set(&err, YK_E_DEVICE, "rank 1: layer 3: all-reduce: timed out");
  yk_openai_error_of(&err, NULL, &error);
  yk_openai_answer_fail(s->answer, &error, &s->out);
  expect(s, "data: {'error':{'message':'rank 1: layer 3: all-reduce: timed out','type':'server_error','param':null,"
            "'code':null}}\n\n" DONE);
  close_session(s);
}

/* Every event is one line of JSON and an empty one, for any text. */
static void events_are_json(void **state)
{
  (void)state;
  session *s = open_session(YK_FORM_COMPLETION, "{'prompt': 'p', 'stream': true}");
  for (int c = 1; c < 128; c++) push(s, 0, c, (char[]){(char)c, '\0'});
  end(s, 0, YK_FINISH_STOP, "");
  int n = 0;
  for (char *at = s->out.data; *at; n++) {
    char *stop = strstr(at, "\n\n");
    json_t *event;
    assert_memory_equal(at, "data: ", 6);
    assert_int_equal(yk_tree_parse("event", at + 6, (size_t)(stop - at) - 6, &event, NULL), YK_OK);
    const char *text = json_string_value(json_object_get(json_array_get(json_object_get(event, "choices"), 0), "text"));
    assert_true(text[0] == n + 1 && text[1] == '\0');
    json_decref(event);
    at = stop + 2;
  }
  assert_int_equal(n, 127);
  close_session(s);
}

/* Floats of at most nine digits; base64 with each number of fill bytes. */
static void embeddings(void **state)
{
  (void)state;
  static const float numbers[] = {1, -0.5f, 0.1f};
  static const char *const bodies[] = {"{'input': [[5, 6, 7], [8]]}",
                                       "{'input': [[5, 6, 7], [8]], 'encoding_format': 'base64'}"};
  static const char *const first[] = {"[1.0,-0.5]", "'AACAPwAAAL8='"};
  static const char *const second[] = {"[1.0,-0.5,0.100000001]", "'AACAPwAAAL/NzMw9'"};
  for (size_t i = 0; each_case(i, i < 2); i++) {
    yk_strbuf expected = YK_STRBUF_INIT;
    session *s = open_embeddings(bodies[i]);
    for (size_t choice = 2; choice-- > 0;) {
      yk_output output = {
          .finish = YK_FINISH_STOP, .text = "", .embedding = numbers, .n_embedding = choice == 1 ? 3 : 2};
      push_output(s, choice, &output, false);
    }
    assert_int_equal(yk_openai_answer_finish(s->answer, &s->out, NULL), YK_OK);
    yk_strbuf_append_fmt(&expected,
                         "{'id':'embd-1','object':'list','created':7,'model':'m','data':[{'object':'embedding',"
                         "'index':0,'embedding':%s},{'object':'embedding','index':1,'embedding':%s}],"
                         "'usage':{'prompt_tokens':4,'total_tokens':4}}",
                         first[i], second[i]);
    char *quoted = double_quoted(expected.data);
    assert_string_equal(s->out.data, quoted);
    free(quoted);
    yk_strbuf_free(&expected);
    close_session(s);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(an_event_a_token),
                                     cmocka_unit_test(the_end_alone),
                                     cmocka_unit_test(a_slow_client_gets_several_tokens_at_once),
                                     cmocka_unit_test(several_tokens_an_event),
                                     cmocka_unit_test(choices_of_a_stream),
                                     cmocka_unit_test(whole_completions),
                                     cmocka_unit_test(echo_with_logprobs),
                                     cmocka_unit_test(echo_of_a_prompt_alone),
                                     cmocka_unit_test(echo_in_a_stream),
                                     cmocka_unit_test(logprobs_in_a_stream),
                                     cmocka_unit_test(top_logprobs_have_each_text_once),
                                     cmocka_unit_test(prompt_logprobs),
                                     cmocka_unit_test(a_stream_fails),
                                     cmocka_unit_test(events_are_json),
                                     cmocka_unit_test(embeddings)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
