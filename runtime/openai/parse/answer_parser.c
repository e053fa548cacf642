#include "openai/parse/answer_parser.h"

#include <stdlib.h>

#include "openai/parse/machine.h"

struct yk_answer_parser {
  yk_answer_parser_options options;
  yk_reasoning_split reasoning;
  yk_call_machine calls;
};

/* ---- Forms ------------------------------------------------------------------------------------------------------- */

static void step_content(yk_call_machine *m, char c)
{
  yk_calls_add(m, YK_EVENT_CONTENT, c);
}

static void end_content(yk_call_machine *m, bool is_cut)
{
  (void)m;
  (void)is_cut;
}

static const yk_call_form *form_of(yk_tool_format format)
{
  static const yk_call_form content = {.step = step_content, .end = end_content};
  static const yk_call_form *const forms[YK_N_TOOL_FORMATS] = {[YK_TOOLS_NONE] = &content,
                                                               [YK_TOOLS_HERMES] = &yk_form_hermes,
                                                               [YK_TOOLS_LLAMA3_JSON] = &yk_form_llama3_json,
                                                               [YK_TOOLS_GRANITE] = &yk_form_granite,
                                                               [YK_TOOLS_HUNYUAN_A13B] = &yk_form_hunyuan_a13b,
                                                               [YK_TOOLS_MISTRAL] = &yk_form_mistral,
                                                               [YK_TOOLS_DEEPSEEK_V3] = &yk_form_deepseek_v3,
                                                               [YK_TOOLS_DEEPSEEK_V31] = &yk_form_deepseek_v31,
                                                               [YK_TOOLS_KIMI_K2] = &yk_form_kimi_k2,
                                                               [YK_TOOLS_GEMMA4] = &yk_form_gemma4,
                                                               [YK_TOOLS_FUNCTIONGEMMA] = &yk_form_functiongemma,
                                                               [YK_TOOLS_QWEN3_CODER] = &yk_form_qwen3_coder,
                                                               [YK_TOOLS_MINIMAX_M2] = &yk_form_minimax_m2,
                                                               [YK_TOOLS_SEED_OSS] = &yk_form_seed_oss,
                                                               [YK_TOOLS_GLM45] = &yk_form_glm45,
                                                               [YK_TOOLS_GLM4] = &yk_form_glm4,
                                                               [YK_TOOLS_PHI4_MINI] = &yk_form_phi4_mini,
                                                               [YK_TOOLS_OPENAI] = &yk_form_harmony,
                                                               [YK_TOOLS_PYTHONIC] = &yk_form_pythonic,
                                                               [YK_TOOLS_DEEPSEEK_V32] = &yk_form_deepseek_v32,
                                                               [YK_TOOLS_NEMOTRON_JSON] = &yk_form_nemotron_json,
                                                               [YK_TOOLS_OLMO3] = &yk_form_olmo3};
  return forms[format];
}

/* Whether the form separates reasoning itself. Enforced calls of another form are the whole answer. */
static bool has_messages(const yk_answer_parser_options *options)
{
  bool has_channels = options->reasoning && options->reasoning->has_channels;
  return options->tools == YK_TOOLS_OPENAI || (has_channels && options->tools == YK_TOOLS_NONE);
}

/* ---- Parser ------------------------------------------------------------------------------------------------------ */

static void take_reasoning(void *user, char c, bool is_special)
{
  yk_answer_parser *parser = user;
  bool is_content = parser->options.reasoning->is_content;
  yk_calls_add_byte(&parser->calls, is_content ? YK_EVENT_CONTENT : YK_EVENT_REASONING, c, is_special);
}

static void pass(void *user, char c, bool is_special)
{
  yk_answer_parser *parser = user;
  parser->calls.is_special = is_special;
  parser->calls.form->step(&parser->calls, c);
}

yk_status yk_answer_parser_create(const yk_answer_parser_options *options, yk_answer_parser **out, yk_err *err)
{
  yk_answer_parser *p = calloc(1, sizeof *p);
  *out = p;
  if (!p) return yk_err_set(err, YK_E_NOMEM, "no memory for a parser of an answer");
  p->options = *options;
  p->calls.options = &p->options;
  p->calls.form = form_of(has_messages(options) ? YK_TOOLS_OPENAI : options->tools);
  p->reasoning = (yk_reasoning_split){.tags = options->reasoning,
                                      .state = options->begins_inside ? YK_REASONING_INSIDE : YK_REASONING_BEGINNING,
                                      .reason = take_reasoning,
                                      .pass = pass,
                                      .user = p};
  bool has_tags = options->reasoning && !options->reasoning->has_channels && !has_messages(options);
  if (!has_tags) p->reasoning.state = YK_REASONING_BEHIND;
  if (has_tags && options->begins_inside && options->reasoning->is_content)
    for (const char *c = options->reasoning->tags.open; *c; c++) take_reasoning(p, *c, false);
  return YK_OK;
}

void yk_answer_parser_free(yk_answer_parser *parser)
{
  if (!parser) return;
  yk_call_machine *m = &parser->calls;
  yk_strbuf *const buffers[] = {
      &m->held, &m->held_special, &m->piece, &m->object.key, &m->object.name, &m->object.arguments,
      &m->name, &m->id,           &m->key,   &m->value,      &m->json};
  for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++) yk_strbuf_free(buffers[i]);
  yk_reasoning_split_free(&parser->reasoning);
  free(parser);
}

static yk_status check_memory(const yk_answer_parser *parser, yk_err *err)
{
  const yk_call_machine *m = &parser->calls;
  bool failed = m->held.failed || m->held_special.failed || m->piece.failed || m->object.key.failed ||
                m->object.name.failed || m->object.arguments.failed || m->name.failed || m->id.failed ||
                m->key.failed || m->value.failed || m->json.failed || parser->reasoning.held.failed ||
                parser->reasoning.held_special.failed;
  return failed ? yk_err_set(err, YK_E_NOMEM, "no memory for the text of an answer") : YK_OK;
}

yk_status yk_answer_parser_push(yk_answer_parser *parser, const yk_output *output, yk_err *err)
{
  size_t next = 0;
  for (size_t i = 0; i < output->text_bytes; i++) {
    while (next < output->n_special && output->special[next].end <= i) next++;
    bool is_special = next < output->n_special && output->special[next].begin <= i;
    yk_reasoning_split_byte(&parser->reasoning, output->text[i], is_special);
  }
  bool is_cut = output->finish == YK_FINISH_LENGTH || output->stop_string;
  if (output->finish != YK_FINISH_NONE) {
    yk_reasoning_split_end(&parser->reasoning, is_cut);
    parser->calls.form->end(&parser->calls, is_cut);
  }
  yk_calls_flush(&parser->calls);
  return check_memory(parser, err);
}

bool yk_answer_parser_is_reasoning(const yk_answer_parser *parser)
{
  return parser->reasoning.state == YK_REASONING_INSIDE || parser->calls.message == YK_EVENT_REASONING;
}

bool yk_answer_parser_has_calls(const yk_answer_parser *parser)
{
  return parser->calls.n_calls > 0 && !parser->calls.has_broken_call;
}
