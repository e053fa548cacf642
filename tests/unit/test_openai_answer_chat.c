/* Answers to chats: messages, calls of tools and reasoning, in a stream and whole, byte for byte. */
#include <math.h>

#include "unit/openai_answer_fixture.h"

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

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(chat_streams),
                                     cmocka_unit_test(stop_reasons),
                                     cmocka_unit_test(a_chats_prompt),
                                     cmocka_unit_test(chat_whole),
                                     cmocka_unit_test(calls_in_a_stream),
                                     cmocka_unit_test(calls_of_a_whole_answer),
                                     cmocka_unit_test(a_stop_string_inside_arguments),
                                     cmocka_unit_test(reasoning_of_a_stream),
                                     cmocka_unit_test(reasoning_of_a_whole_answer)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
