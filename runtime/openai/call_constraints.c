#include "openai/call_constraints.h"

#include <stdio.h>
#include <string.h>

#include "base/json_write.h"
#include "openai/constraint_fields.h"

/* ---- Forms ------------------------------------------------------------------------------------------------------- */

/* How a model writes calls: list_begin, calls with the separator between, list_end. A call is begin, the function's
 * name, arguments, end. The trigger begins every list, or every call if there is no list. */
typedef struct call_form {
  const char *begin, *arguments, *end, *separator, *trigger;
  const char *list_begin, *list_end; /* NULL: calls stand alone */
  const char *other_text;            /* without a trigger: a pattern of texts that are no calls */
  const char *style;                 /* of the arguments, with its parameters (grammar/helper); NULL: JSON */
  bool quotes_name;                  /* the name is JSON */
  bool has_index;                    /* a number stands between the name and the arguments */
  const struct call_form *other;     /* a form that older or newer models of the family write; NULL: none */
} call_form;

/* White space is limited to the amount that models write. */
#define GEMMA_STYLE   "\"gemma\", \"max_whitespace_cnt\": 1"
#define PYTHON_STYLE  "\"python\""
#define DEEPSEEK_LIST .list_begin = "<｜tool▁calls▁begin｜>", .list_end = "<｜tool▁calls▁end｜>"

static const call_form of_mistral_list = {.begin = "{\"name\": ",
                                          .arguments = ", \"arguments\": ",
                                          .end = "}",
                                          .separator = ", ",
                                          .list_begin = "[TOOL_CALLS] [",
                                          .list_end = "]",
                                          .quotes_name = true};

static const call_form of_phi4_mini_word = {.begin = "{\"name\": ",
                                            .arguments = ", \"arguments\": ",
                                            .end = "}",
                                            .separator = ", ",
                                            .trigger = "functools[",
                                            .list_begin = "functools[",
                                            .list_end = "]",
                                            .quotes_name = true};

/* YK_TOOLS_OPENAI has no form: calls are messages with channels, which the prompt begins. */
static const call_form forms[YK_N_TOOL_FORMATS] = {
    [YK_TOOLS_HERMES] = {.begin = "<tool_call>\n{\"name\": ",
                         .arguments = ", \"arguments\": ",
                         .end = "}\n</tool_call>",
                         .separator = "\n",
                         .trigger = "<tool_call>",
                         .quotes_name = true},
    [YK_TOOLS_LLAMA3_JSON] = {.begin = "{\"name\": ",
                              .arguments = ", \"parameters\": ",
                              .end = "}",
                              .separator = "; ",
                              .trigger = "{\"name\": ",
                              .quotes_name = true},
    [YK_TOOLS_GRANITE] = {.begin = "{\"name\": ",
                          .arguments = ", \"arguments\": ",
                          .end = "}",
                          .separator = ", ",
                          .trigger = "<|tool_call|>",
                          .list_begin = "<|tool_call|>[",
                          .list_end = "]",
                          .quotes_name = true},
    [YK_TOOLS_HUNYUAN_A13B] = {.begin = "{\"name\": ",
                               .arguments = ", \"arguments\": ",
                               .end = "}",
                               .separator = ", ",
                               .trigger = "<tool_calls>",
                               .list_begin = "<tool_calls>[",
                               .list_end = "]</tool_calls>",
                               .quotes_name = true},
    [YK_TOOLS_NEMOTRON_JSON] = {.begin = "{\"name\": ",
                                .arguments = ", \"arguments\": ",
                                .end = "}",
                                .separator = ", ",
                                .trigger = "<TOOLCALL>",
                                .list_begin = "<TOOLCALL>[",
                                .list_end = "]</TOOLCALL>",
                                .quotes_name = true},
    [YK_TOOLS_MISTRAL] = {.begin = "[TOOL_CALLS]",
                          .arguments = "[ARGS]",
                          .end = "",
                          .separator = "",
                          .trigger = "[TOOL_CALLS]",
                          .other = &of_mistral_list},
    [YK_TOOLS_DEEPSEEK_V3] = {.begin = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
                              .arguments = "\n```json\n",
                              .end = "\n```<｜tool▁call▁end｜>",
                              .separator = "\n",
                              .trigger = "<｜tool▁calls▁begin｜>",
                              DEEPSEEK_LIST},
    [YK_TOOLS_DEEPSEEK_V31] = {.begin = "<｜tool▁call▁begin｜>",
                               .arguments = "<｜tool▁sep｜>",
                               .end = "<｜tool▁call▁end｜>",
                               .separator = "",
                               .trigger = "<｜tool▁calls▁begin｜>",
                               DEEPSEEK_LIST},
    [YK_TOOLS_KIMI_K2] = {.begin = "<|tool_call_begin|>functions.",
                          .arguments = "<|tool_call_argument_begin|>",
                          .end = "<|tool_call_end|>",
                          .separator = "",
                          .trigger = "<|tool_calls_section_begin|>",
                          .list_begin = "<|tool_calls_section_begin|>",
                          .list_end = "<|tool_calls_section_end|>",
                          .has_index = true},
    [YK_TOOLS_GEMMA4] = {.begin = "<|tool_call>call:",
                         .arguments = "",
                         .end = "<tool_call|>",
                         .separator = "",
                         .trigger = "<|tool_call>",
                         .style = GEMMA_STYLE},
    [YK_TOOLS_FUNCTIONGEMMA] = {.begin = "<start_function_call>call:",
                                .arguments = "",
                                .end = "<end_function_call>",
                                .separator = "",
                                .trigger = "<start_function_call>",
                                .style = GEMMA_STYLE ", \"mark\": \"<escape>\""},
    [YK_TOOLS_QWEN3_CODER] = {.begin = "<tool_call>\n<function=",
                              .arguments = ">\n",
                              .end = "</function>\n</tool_call>",
                              .separator = "\n",
                              .trigger = "<tool_call>",
                              .style = "\"qwen_xml\""},
    [YK_TOOLS_SEED_OSS] = {.begin = "<seed:tool_call>\n<function=",
                           .arguments = ">\n",
                           .end = "</function>\n</seed:tool_call>",
                           .separator = "\n",
                           .trigger = "<seed:tool_call>",
                           .style = "\"qwen_xml\""},
    [YK_TOOLS_MINIMAX_M2] = {.begin = "<invoke name=\"",
                             .arguments = "\">\n",
                             .end = "</invoke>\n",
                             .separator = "",
                             .trigger = "<minimax:tool_call>",
                             .list_begin = "<minimax:tool_call>\n",
                             .list_end = "</minimax:tool_call>",
                             .style = "\"minimax_xml\""},
    [YK_TOOLS_DEEPSEEK_V32] = {.begin = "<｜DSML｜invoke name=\"",
                               .arguments = "\">\n",
                               .end = "</｜DSML｜invoke>\n",
                               .separator = "",
                               .trigger = "<｜DSML｜function_calls>",
                               .list_begin = "<｜DSML｜function_calls>\n",
                               .list_end = "</｜DSML｜function_calls>",
                               .style = "\"dsml\""},
    [YK_TOOLS_GLM45] = {.begin = "<tool_call>",
                        .arguments = "",
                        .end = "</tool_call>",
                        .separator = "\n",
                        .trigger = "<tool_call>",
                        .style = "\"glm_xml\""},
    [YK_TOOLS_PHI4_MINI] = {.begin = "{\"name\": ",
                            .arguments = ", \"arguments\": ",
                            .end = "}",
                            .separator = ", ",
                            .trigger = "<|tool_call|>",
                            .list_begin = "<|tool_call|>[",
                            .list_end = "]<|/tool_call|>",
                            .quotes_name = true,
                            .other = &of_phi4_mini_word},
    /* Another text has no name and newline before "{". */
    [YK_TOOLS_GLM4] = {.begin = "",
                       .arguments = "\n",
                       .end = "",
                       .separator = "\n",
                       .other_text = "([^a-zA-Z0-9_.-][\\s\\S]*|[a-zA-Z0-9_.-]+([^a-zA-Z0-9_. \\n-][\\s\\S]*| +([^ "
                                     "\\n][\\s\\S]*)?| *\\n([^{][\\s\\S]*)?)?)?"},
    [YK_TOOLS_PYTHONIC] = {.begin = "",
                           .arguments = "(",
                           .end = ")",
                           .separator = ", ",
                           .list_begin = "[",
                           .list_end = "]",
                           .other_text = "([^\\[][\\s\\S]*)?",
                           .style = PYTHON_STYLE},
    [YK_TOOLS_OLMO3] = {.begin = "",
                        .arguments = "(",
                        .end = ")",
                        .separator = "\n",
                        .trigger = "<function_calls>",
                        .list_begin = "<function_calls>\n",
                        .list_end = "\n</function_calls>",
                        .style = PYTHON_STYLE},
};

/* ---- Formats ----------------------------------------------------------------------------------------------------- */

/* The calls that the output may contain. */
typedef struct call_rules {
  const yk_openai_request *request;
  const char *only; /* of this function; NULL: of any */
  bool only_strict; /* only strict tools have their schema applied */
} call_rules;

static yk_json function_of(yk_json tool)
{
  return yk_json_get(tool, "function");
}

static bool is_strict(yk_json tool)
{
  return yk_json_is(yk_json_get(function_of(tool), "strict"), YK_JSON_TRUE);
}

static void append_key(yk_strbuf *out, const char *key, const char *text)
{
  yk_strbuf_append_fmt(out, "\"%s\": ", key);
  yk_json_append_string(out, text, strlen(text));
}

static void append_begin(yk_strbuf *out, const call_form *form, yk_json name)
{
  yk_strbuf begin = YK_STRBUF_INIT;
  yk_strbuf_append_str(&begin, form->begin);
  if (form->quotes_name)
    yk_json_append_string(&begin, yk_json_text(name), yk_json_length(name));
  else
    yk_strbuf_append(&begin, yk_json_text(name), yk_json_length(name));
  yk_strbuf_append_str(&begin, form->has_index ? ":" : form->arguments);
  append_key(out, "begin", begin.failed ? "" : begin.data);
  out->failed |= begin.failed;
  yk_strbuf_free(&begin);
}

/* Where the schema of a tool is in the client's body, for errors. */
static void append_place(yk_strbuf *out, const yk_openai_request *request, size_t tool)
{
  char usual[64];
  const char *place = request->tool_places;
  for (size_t i = 0; place && i < tool; i++) place += strlen(place) + 1;
  snprintf(usual, sizeof usual, "tools[%zu].function.parameters", tool);
  append_key(out, "place", place ? place : usual);
}

/* Arguments by the function's schema; any: every well-formed object. */
static void append_arguments(yk_strbuf *out, const call_form *form, const yk_openai_request *request, size_t tool,
                             yk_json parameters, bool any)
{
  yk_strbuf_append_str(out, "{\"type\": \"json_schema\", \"json_schema\": ");
  if (!any && yk_json_is(parameters, YK_JSON_OBJECT) && yk_json_size(parameters) > 0)
    yk_json_append(out, parameters, 0);
  else
    yk_strbuf_append_str(out, "{\"type\": \"object\"}");
  if (form->style) yk_strbuf_append_fmt(out, ", \"style\": %s", form->style);
  yk_strbuf_append_str(out, ", ");
  append_place(out, request, tool);
  yk_strbuf_append_str(out, "}");
}

static void append_call(yk_strbuf *out, const call_form *form, const yk_openai_request *request, size_t tool,
                        yk_json function, bool any)
{
  yk_strbuf_append_str(out, "{\"type\": \"tag\", ");
  append_begin(out, form, yk_json_get(function, "name"));
  yk_strbuf_append_str(out, ", \"content\": ");
  if (form->has_index) {
    yk_strbuf_append_str(out, "{\"type\": \"sequence\", \"elements\": [{\"type\": \"regex\", \"pattern\": "
                              "\"[0-9]{1,3}\"}, {\"type\": \"const_string\", ");
    append_key(out, "value", form->arguments);
    yk_strbuf_append_str(out, "}, ");
  }
  append_arguments(out, form, request, tool, yk_json_get(function, "parameters"), any);
  yk_strbuf_append_str(out, form->has_index ? "]}, " : ", ");
  append_key(out, "end", form->end);
  yk_strbuf_append_str(out, "}");
}

static void append_each_call(yk_strbuf *out, const call_form *form, const call_rules *rules)
{
  size_t i = 0;
  bool is_first = true;
  YK_JSON_EACH(tool, rules->request->chat.tools)
  {
    size_t at = i++;
    if (rules->only && !yk_json_equals(yk_json_get(function_of(tool), "name"), rules->only)) continue;
    if (!is_first) yk_strbuf_append_str(out, ", ");
    append_call(out, form, rules->request, at, function_of(tool), rules->only_strict && !is_strict(tool));
    is_first = false;
  }
}

static void append_stop(yk_strbuf *out, const call_rules *rules)
{
  bool has_several = rules->request->chat.parallel_tool_calls && !rules->only;
  yk_strbuf_append_fmt(out, ", \"stop_after_first\": %s", has_several ? "false" : "true");
}

/* At least one call, with separators between calls. */
static void append_separated_calls(yk_strbuf *out, const call_form *form, const call_rules *rules)
{
  yk_strbuf_append_str(out, "{\"type\": \"tags_with_separator\", \"at_least_one\": true, ");
  append_key(out, "separator", form->separator);
  yk_strbuf_append_str(out, ", \"tags\": [");
  append_each_call(out, form, rules);
  yk_strbuf_append_str(out, "]");
  append_stop(out, rules);
  yk_strbuf_append_str(out, "}");
}

static void append_list(yk_strbuf *out, const call_form *form, const call_rules *rules)
{
  yk_strbuf_append_str(out, "{\"type\": \"tag\", ");
  append_key(out, "begin", form->list_begin);
  yk_strbuf_append_str(out, ", \"content\": ");
  append_separated_calls(out, form, rules);
  yk_strbuf_append_str(out, ", ");
  append_key(out, "end", form->list_end);
  yk_strbuf_append_str(out, "}");
}

/* At least one call, and nothing else. */
static void append_calls(yk_strbuf *out, const call_form *form, const call_rules *rules)
{
  if (form->other) yk_strbuf_append_str(out, "{\"type\": \"or\", \"elements\": [");
  if (form->list_begin)
    append_list(out, form, rules);
  else
    append_separated_calls(out, form, rules);
  if (!form->other) return;
  yk_strbuf_append_str(out, ", ");
  append_calls(out, form->other, rules);
  yk_strbuf_append_str(out, "]}");
}

/* Calls wherever their trigger occurs. */
static void append_triggered(yk_strbuf *out, const call_form *form, const call_rules *rules)
{
  yk_strbuf_append_str(out, "{\"type\": \"triggered_tags\", \"triggers\": [");
  yk_json_append_string(out, form->trigger, strlen(form->trigger));
  if (form->other && form->other->trigger) {
    yk_strbuf_append_str(out, ", ");
    yk_json_append_string(out, form->other->trigger, strlen(form->other->trigger));
  }
  yk_strbuf_append_str(out, "], \"tags\": [");
  if (form->list_begin)
    append_list(out, form, rules);
  else
    append_each_call(out, form, rules);
  if (form->other) {
    yk_strbuf_append_str(out, ", ");
    append_list(out, form->other, rules);
  }
  yk_strbuf_append_str(out, "]");
  append_stop(out, rules);
  yk_strbuf_append_str(out, "}");
}

/* Without a trigger only the beginning of a text shows whether the text is a list of calls. */
static void append_calls_or_text(yk_strbuf *out, const call_form *form, const call_rules *rules)
{
  yk_strbuf_append_str(out, "{\"type\": \"or\", \"elements\": [");
  append_calls(out, form, rules);
  yk_strbuf_append_str(out, ", {\"type\": \"regex\", ");
  append_key(out, "pattern", form->other_text);
  yk_strbuf_append_str(out, "}]}");
}

/* ---- Requests ---------------------------------------------------------------------------------------------------- */

static yk_status find_tool(const yk_openai_request *request, const char *function, yk_err *err)
{
  YK_JSON_EACH(tool, request->chat.tools)
  if (!function || yk_json_equals(yk_json_get(function_of(tool), "name"), function)) return YK_OK;
  if (!function) return yk_err_set(err, YK_E_INVAL, "tool_choice: expected \"tools\" beside it");
  return yk_err_set(err, YK_E_INVAL, "tool_choice: there is no tool \"%.80s\"", function);
}

static yk_status set(yk_openai_request *request, const char *name, yk_strbuf *format, yk_err *err)
{
  yk_strbuf text = YK_STRBUF_INIT;
  yk_strbuf_append_str(&text, "{\"type\": \"structural_tag\", \"format\": ");
  yk_strbuf_append(&text, format->data, format->length);
  yk_strbuf_append_str(&text, "}");
  text.failed |= format->failed;
  yk_strbuf_free(format);
  return yk_request_set_constraint_text(request, name, YK_CONSTRAINT_STRUCTURAL_TAG, &text, err);
}

/* Refuses names that the parser cannot read back; a name in JSON may have any characters. */
static yk_status check_name(const yk_openai_request *request, yk_json function, yk_err *err)
{
  bool is_python = request->tools == YK_TOOLS_PYTHONIC || request->tools == YK_TOOLS_OLMO3;
  const char *name = yk_json_string(yk_json_get(function, "name"));
  size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.");
  if (forms[request->tools].quotes_name) return YK_OK;
  if (n > 0 && name[n] == '\0' && (!is_python || !strchr("0123456789-.", name[0]))) return YK_OK;
  return yk_err_set(err, YK_E_INVAL,
                    "tools: expected a name of letters, digits, \"_\", \"-\" and \".\"%s, found \"%.80s\"",
                    is_python ? ", a letter or \"_\" first" : "", name);
}

/* Refuses schemas by which arguments are no object: parsers would read such a call as text. */
static yk_status check_parameters(yk_json function, yk_err *err)
{
  yk_json parameters = yk_json_get(function, "parameters"), type = yk_json_get(parameters, "type");
  if (yk_json_is(parameters, YK_JSON_OBJECT) && !yk_json_get(parameters, "const").doc &&
      !yk_json_get(parameters, "enum").doc && (!type.doc || yk_json_equals(type, "object")))
    return YK_OK;
  if (!yk_json_is_given(parameters)) return YK_OK;
  return yk_err_set(err, YK_E_INVAL, "tools: expected parameters of the type \"object\" for \"%.80s\"",
                    yk_json_string(yk_json_get(function, "name")));
}

static yk_status check_tools(const yk_openai_request *request, yk_err *err)
{
  if (!forms[request->tools].begin)
    return yk_err_set(
        err, YK_E_UNSUPPORTED,
        "tools: calls cannot be enforced beside this model's calls; expected the tool_choice \"auto\" and "
        "no response_format");
  YK_JSON_EACH(tool, request->chat.tools)
  {
    YK_TRY(check_name(request, function_of(tool), err));
    YK_TRY(check_parameters(function_of(tool), err));
  }
  return YK_OK;
}

static yk_status require(yk_openai_request *request, const char *function, yk_err *err)
{
  const call_rules rules = {.request = request, .only = function};
  yk_strbuf format = YK_STRBUF_INIT;
  YK_TRY(find_tool(request, function, err));
  YK_TRY(check_tools(request, err));
  append_calls(&format, &forms[request->tools], &rules);
  return set(request, "tool_choice", &format, err);
}

/* Calls, or else an output of the JSON schema that the request has already. */
static yk_status constrain_rest(yk_openai_request *request, yk_err *err)
{
  const call_rules rules = {.request = request, .only_strict = true};
  yk_sampling *s = &request->sampling;
  const char *name = s->constraint_name;
  yk_strbuf format = YK_STRBUF_INIT;
  yk_strbuf_append_str(&format, "{\"type\": \"or\", \"elements\": [");
  append_calls(&format, &forms[request->tools], &rules);
  yk_strbuf_append_str(&format, ", {\"type\": \"json_schema\", \"json_schema\": ");
  if (s->constraint_kind == YK_CONSTRAINT_JSON_SCHEMA)
    yk_strbuf_append(&format, s->constraint, s->constraint_bytes);
  else
    yk_strbuf_append_str(&format, "{\"type\": \"object\"}");
  yk_strbuf_append_str(&format, "}]}");
  s->constraint_kind = YK_CONSTRAINT_NONE;
  return set(request, name, &format, err);
}

static yk_status constrain_strict(yk_openai_request *request, yk_err *err)
{
  const call_rules rules = {.request = request, .only_strict = true};
  const call_form *form = &forms[request->tools];
  yk_strbuf format = YK_STRBUF_INIT;
  if (form->trigger)
    append_triggered(&format, form, &rules);
  else
    append_calls_or_text(&format, form, &rules);
  return set(request, "tools", &format, err);
}

yk_status yk_request_constrain_tools(yk_openai_request *request, yk_tool_choice choice, const char *function,
                                     yk_err *err)
{
  yk_constraint_kind kind = request->sampling.constraint_kind;
  bool has_strict = false, is_json = kind == YK_CONSTRAINT_JSON_SCHEMA || kind == YK_CONSTRAINT_JSON_OBJECT;
  if (choice == YK_TOOL_CHOICE_REQUIRED) return require(request, function, err);
  if (choice == YK_TOOL_CHOICE_NONE || !request->chat.tools.doc) return YK_OK;
  YK_JSON_EACH(tool, request->chat.tools) has_strict |= is_strict(tool);
  has_strict &= forms[request->tools].begin != NULL;
  if (!is_json && (!has_strict || kind != YK_CONSTRAINT_NONE)) return YK_OK;
  YK_TRY(check_tools(request, err));
  return is_json ? constrain_rest(request, err) : constrain_strict(request, err);
}
