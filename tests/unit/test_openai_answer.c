/* Answers: the events of a stream and whole objects, byte for byte. Without an engine a token's text is "token_id:5".
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json_tree.h"
#include "each_case.h"
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

static void give_ids(yk_openai_request *request)
{
  for (size_t i = 0; i < request->n_prompts; i++) {
    if (request->prompts[i].ids) continue;
    request->prompts[i].ids = calloc(3, sizeof(int32_t));
    request->prompts[i].n_ids = 3;
  }
}

static session *open_reasoning_session(yk_openai_form form, const char *body, const yk_reasoning *reasoning)
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

static session *open_embeddings(const char *body)
{
  session *s = calloc(1, sizeof *s);
  s->request = openai_request(YK_FORM_EMBEDDING, body);
  s->request.protocol = &yk_protocol_embeddings;
  const yk_openai_answer_options options = {.id = "embd-1", .model = "m", .created_s = 7};
  assert_int_equal(yk_openai_answer_create(&s->request, &options, &s->answer, NULL), YK_OK);
  return s;
}

static session *open_session(yk_openai_form form, const char *body)
{
  return open_reasoning_session(form, body, NULL);
}

static void close_session(session *s)
{
  yk_openai_answer_free(s->answer);
  yk_token_texts_free(s->texts);
  yk_openai_request_free(&s->request);
  yk_strbuf_free(&s->out);
  free(s);
}

static yk_output token(int32_t id, const char *text)
{
  return (yk_output){.has_token = true, .token_id = id, .logprob = -1.5f, .text = text, .text_bytes = strlen(text)};
}

static void push_output(session *s, size_t choice, const yk_output *output, bool joins)
{
  yk_request_usage usage = {.reused_tokens = 2};
  assert_int_equal(yk_openai_answer_push(s->answer, choice, output, output->finish ? &usage : NULL, joins,
                                         s->request.stream ? &s->out : NULL, NULL),
                   YK_OK);
}

static void push(session *s, size_t choice, int32_t id, const char *text)
{
  yk_output output = token(id, text);
  push_output(s, choice, &output, false);
}

static void end(session *s, size_t choice, yk_finish_reason finish, const char *text)
{
  push_output(s, choice, &(yk_output){.finish = finish, .text = text, .text_bytes = strlen(text)}, false);
}

static void flush(session *s, size_t choice)
{
  assert_int_equal(yk_openai_answer_flush(s->answer, choice, s->request.stream ? &s->out : NULL, NULL), YK_OK);
}

static void finish(session *s)
{
  assert_int_equal(yk_openai_answer_finish(s->answer, &s->out, NULL), YK_OK);
}

/* The text written since the last call; expected has ' in place of ". */
static void expect(session *s, const char *expected)
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

#define USAGE(prompt, output, total)                                                                                   \
  "'usage':{'prompt_tokens':" prompt ",'completion_tokens':" output ",'total_tokens':" total                           \
  ",'prompt_tokens_details':{'cached_tokens':2}}}"

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

/* ---- Chat -------------------------------------------------------------------------------------------------------- */

static void chat_streams(void **state)
{
  (void)state;
  session *s = open_session(YK_FORM_CHAT, "{" MESSAGES ", 'stream': true, 'stream_options': {'include_usage': true}}");
  push(s, 0, 5, "a");
  expect(s, CHUNK "{'index':0,'delta':{'role':'assistant','content':''},'logprobs':null,'finish_reason':null}]}\n\n");
  push(s, 0, 6, "");
  expect(s, CHUNK "{'index':0,'delta':{'content':'a'},'logprobs':null,'finish_reason':null}]}\n\n");
  flush(s, 0);
  expect(s, CHUNK "{'index':0,'delta':{'content':''},'logprobs':null,'finish_reason':null}]}\n\n");
  end(s, 0, YK_FINISH_STOP, "");
  expect(s, CHUNK "{'index':0,'delta':{},'logprobs':null,'finish_reason':'stop','stop_reason':null}]}\n\n");
  finish(s);
  expect(s, CHUNK "]," USAGE("3", "2", "5") "\n\n" DONE);
  close_session(s);
}

/* The string or id of the request that ended the output, and null for the model's own end. */
static void stop_reasons(void **state)
{
  (void)state;
  session *s = open_session(YK_FORM_COMPLETION, "{'prompt': 'p', 'stop': 'a\\n', 'stop_token_ids': [7], 'n': 3}");
  push_output(s, 0, &(yk_output){.finish = YK_FINISH_STOP, .stop_string = "a\n", .text = ""}, false);
  push(s, 1, 7, "");
  end(s, 1, YK_FINISH_STOP, "");
  push(s, 2, 7, "");
  push(s, 2, 8, "");
  end(s, 2, YK_FINISH_STOP, "");
  finish(s);
  const char *at = s->out.data;
  static const char *const expected[] = {"\"stop_reason\":\"a\\n\"}", "\"stop_reason\":7}", "\"stop_reason\":null}"};
  for (size_t i = 0; i < 3; i++) {
    at = strstr(at, expected[i]);
    assert_non_null(at);
  }
  close_session(s);
}

/* As in vLLM next to the choices, and in a stream with the role. */
static void a_chats_prompt(void **state)
{
  (void)state;
  session *s = open_session(YK_FORM_CHAT, "{" MESSAGES ", 'stream': true, 'return_token_ids': true}");
  push(s, 0, 5, "a");
  expect(s, CHUNK "{'index':0,'delta':{'role':'assistant','content':''},'logprobs':null,'finish_reason':null}],"
                  "'prompt_token_ids':[0,0,0]}\n\n");
  end(s, 0, YK_FINISH_STOP, "");
  expect(s, CHUNK "{'index':0,'delta':{'content':'a'},'logprobs':null,'finish_reason':'stop','stop_reason':null,'token_"
                  "ids':[5]}]}\n\n");
  close_session(s);
  s = open_session(YK_FORM_CHAT, "{" MESSAGES ", 'n': 2, 'return_token_ids': true, 'prompt_logprobs': 0}");
  for (size_t i = 0; i < 2; i++) {
    yk_output of_prompt = token(6, "");
    of_prompt.is_prompt = true;
    push_output(s, i, &of_prompt, false);
    end(s, i, YK_FINISH_STOP, "");
  }
  finish(s);
  assert_non_null(strstr(s->out.data, "},\"prompt_token_ids\":[0,0,0],\"prompt_logprobs\":[null,{\"6\":{"));
  assert_null(strstr(strstr(s->out.data, "prompt_logprobs") + 1, "prompt_logprobs"));
  assert_true(strstr(s->out.data, "prompt_logprobs") > strstr(s->out.data, "usage"));
  close_session(s);
}

static void chat_whole(void **state)
{
  (void)state;
  session *s = open_session(YK_FORM_CHAT, "{" MESSAGES ", 'n': 2, 'logprobs': true, 'top_logprobs': 1}");
  yk_output output = token(5, "a");
  output.n_top = 1;
  output.top_ids = (int32_t[]){6};
  output.top_logprobs = (float[]){-INFINITY};
  push_output(s, 0, &output, false);
  end(s, 0, YK_FINISH_STOP, "");
  end(s, 1, YK_FINISH_STOP, "");
  finish(s);
#define BYTES "[116,111,107,101,110,95,105,100,58,"
  expect(s, CHAT
         "{'index':0,'message':{'role':'assistant','content':'a'},'logprobs':{'content':[{'token':'token_id:5',"
         "'logprob':-1.5,'bytes':" BYTES "53],'top_logprobs':[{'token':'token_id:6','logprob':-9999.0,'bytes':" BYTES
         "54]}]}]},'finish_reason':'stop','stop_reason':null},{'index':1,'message':{'role':'assistant','content':''},"
         "'logprobs':{'content':[]},'finish_reason':'stop','stop_reason':null}]," USAGE("3", "1", "4"));
  close_session(s);
}

static const char *const call_pieces[] = {
    "I will ", "<tool_call>", "{\"name\": \"f\", \"arguments\": ", "{\"a\":", " \"\\n\"}", "}</tool_call>", "\n"};

static void push_call(session *s)
{
  for (size_t i = 0; i < sizeof call_pieces / sizeof *call_pieces; i++) push(s, 0, (int32_t)i, call_pieces[i]);
  end(s, 0, YK_FINISH_STOP, "");
}

static void calls_in_a_stream(void **state)
{
  (void)state;
  session *s = open_session(YK_FORM_CHAT, "{" MESSAGES ", 'stream': true, " TOOLS "}");
  push_call(s);
#define DELTA(inside) CHUNK "{'index':0,'delta':{" inside "},'logprobs':null,'finish_reason':null}]}\n\n"
  expect(s, DELTA("'role':'assistant','content':''") DELTA("'content':'I will '") DELTA(
                "'tool_calls':[{'index':0,'id':'call_1_0_0','type':'function','function':{'name':'f','arguments':"
                "'{\\'a\\':'}}]") DELTA("'tool_calls':[{'index':0,'function':{'arguments':' \\'\\\\n\\'}'}}]") CHUNK
         "{'index':0,'delta':{},'logprobs':null,'finish_reason':'tool_calls','stop_reason':null}]}\n\n");
  close_session(s);
}

static void calls_of_a_whole_answer(void **state)
{
  (void)state;
  session *s = open_session(YK_FORM_CHAT, "{" MESSAGES ", " TOOLS "}");
  push_call(s);
  finish(s);
  expect(s, CHAT "{'index':0,'message':{'role':'assistant','content':'I will ','tool_calls':[{'id':'call_1_0_0','type':"
                 "'function','function':{'name':'f','arguments':'{\\'a\\': \\'\\\\n\\'}'}}]},'logprobs':null,"
                 "'finish_reason':'tool_calls','stop_reason':null}]," USAGE("3", "7", "10"));
  close_session(s);
  s = open_session(YK_FORM_CHAT, "{" MESSAGES ", " TOOLS "}");
  push(s, 0, 5,
       "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call><tool_call>{\"name\": \"g\", \"arguments\": {}}");
  end(s, 0, YK_FINISH_LENGTH, "");
  finish(s);
  expect(s,
         CHAT "{'index':0,'message':{'role':'assistant','content':null,'tool_calls':[{'id':'call_1_0_0','type':"
              "'function','function':{'name':'f','arguments':'{}'}},{'id':'call_1_0_1','type':'function','function':"
              "{'name':'g','arguments':'{}'}}]},'logprobs':null,'finish_reason':'length','stop_reason':null}]," USAGE(
                  "3", "1", "4"));
  close_session(s);
}

/* Clients read arguments as JSON if "tool_calls" ends an answer. */
static void a_stop_string_inside_arguments(void **state)
{
  (void)state;
  session *s = open_session(YK_FORM_CHAT, "{" MESSAGES ", 'stop': 'Rome', " TOOLS "}");
  push(s, 0, 5, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"");
  push_output(s, 0, &(yk_output){.finish = YK_FINISH_STOP, .stop_string = "Rome", .text = ""}, false);
  finish(s);
  assert_non_null(strstr(s->out.data, "\"arguments\":\"{\\\"a\\\": \\\"\"}}]"));
  assert_non_null(strstr(s->out.data, "\"finish_reason\":\"stop\",\"stop_reason\":\"Rome\""));
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

/* Every event is one line of JSON and an empty one, whatever the text. */
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

/* ---- Reasoning --------------------------------------------------------------------------------------------------- */

static void push_thoughts(session *s)
{
  static const char *const texts[] = {"<think>", "\n", "a\"", "\n</th", "ink>", "\n\n", "b"};
  for (int32_t i = 0; i < 7; i++) {
    push(s, 0, i, texts[i]);
    flush(s, 0);
  }
  end(s, 0, YK_FINISH_STOP, "");
  finish(s);
}

#define DETAILS(prompt, output, total, reasoning)                                                                      \
  "'usage':{'prompt_tokens':" prompt ",'completion_tokens':" output ",'total_tokens':" total                           \
  ",'prompt_tokens_details':{'cached_tokens':2},'completion_tokens_details':{'reasoning_tokens':" reasoning "}}}"

static void reasoning_of_a_stream(void **state)
{
  (void)state;
  session *s = open_reasoning_session(YK_FORM_CHAT, "{" MESSAGES ", 'stream': true}", yk_reasoning_find("qwen3"));
  push_thoughts(s);
  expect(s, CHUNK
         "{'index':0,'delta':{'role':'assistant','content':''},'logprobs':null,'finish_reason':null}]}\n\n" CHUNK
         "{'index':0,'delta':{'reasoning':'a\\'','reasoning_content':'a\\''},'logprobs':null,'finish_reason':"
         "null}]}\n\n" CHUNK "{'index':0,'delta':{'content':'b'},'logprobs':null,'finish_reason':null}]}\n\n" CHUNK
         "{'index':0,'delta':{},'logprobs':null,'finish_reason':'stop','stop_reason':null}]}\n\n" DONE);
  close_session(s);
}

static void reasoning_of_a_whole_answer(void **state)
{
  (void)state;
  const yk_reasoning *tags = yk_reasoning_find("qwen3");
  session *s = open_reasoning_session(YK_FORM_CHAT, "{" MESSAGES "}", tags);
  push_thoughts(s);
  expect(s,
         CHAT "{'index':0,'message':{'role':'assistant','reasoning':'a\\'','reasoning_content':'a\\'','content':'b'},"
              "'logprobs':null,'finish_reason':'stop','stop_reason':null}]," DETAILS("3", "7", "10", "5"));
  close_session(s);
  s = open_reasoning_session(YK_FORM_CHAT, "{" MESSAGES ", 'include_reasoning': false}", tags);
  push_thoughts(s);
  expect(s, CHAT "{'index':0,'message':{'role':'assistant','content':'b'},'logprobs':null,'finish_reason':'stop',"
                 "'stop_reason':null}]," DETAILS("3", "7", "10", "5"));
  close_session(s);
  s = open_reasoning_session(YK_FORM_CHAT, "{" MESSAGES "}", tags);
  push(s, 0, 5, "<think>a");
  end(s, 0, YK_FINISH_LENGTH, "");
  finish(s);
  expect(s, CHAT "{'index':0,'message':{'role':'assistant','reasoning':'a','reasoning_content':'a','content':null},"
                 "'logprobs':null,'finish_reason':'length','stop_reason':null}]," DETAILS("3", "1", "4", "1"));
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
  const struct CMUnitTest tests[] = {cmocka_unit_test(embeddings),
                                     cmocka_unit_test(an_event_a_token),
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
                                     cmocka_unit_test(stop_reasons),
                                     cmocka_unit_test(a_chats_prompt),
                                     cmocka_unit_test(chat_streams),
                                     cmocka_unit_test(chat_whole),
                                     cmocka_unit_test(calls_in_a_stream),
                                     cmocka_unit_test(calls_of_a_whole_answer),
                                     cmocka_unit_test(a_stop_string_inside_arguments),
                                     cmocka_unit_test(a_stream_fails),
                                     cmocka_unit_test(events_are_json),
                                     cmocka_unit_test(reasoning_of_a_stream),
                                     cmocka_unit_test(reasoning_of_a_whole_answer)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
