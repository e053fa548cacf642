#define _GNU_SOURCE /* asprintf */
#include "grammar/compiler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/helper_process.h"
#include "base/json_write.h"
#include "base/units.h"

/* The modules of helper/. */
extern const yk_embedded_file yk_grammar_helper_files[];
static const char *const MODULES[] = {"grammar_library", "schema_check", "call_arguments",
                                      "tag_tokens",      "refusal",      "grammar_helper"};
_Static_assert(sizeof MODULES / sizeof *MODULES <= YK_HELPER_MAX_MODULES, "too many modules of a helper");

/* Python, and the tokenizer of a large vocabulary, take a while on a busy machine. */
static const double START_TIME_LIMIT_S = 60;

struct yk_grammar_compiler {
  yk_grammar_compiler_options options; /* python is a copy */
  char *argument;                      /* of the helper program */
  yk_helper_process helper;
};

yk_status yk_grammar_compiler_create(const yk_grammar_compiler_options *options, yk_grammar_compiler **out, yk_err *err)
{
  yk_grammar_compiler *compiler = calloc(1, sizeof *compiler);
  *out = NULL;
  if (compiler) {
    compiler->options = *options;
    compiler->options.python = strdup(options->python);
    if (asprintf(&compiler->argument, "%s\n%s", options->ffi_file, options->library_file) < 0)
      compiler->argument = NULL;
  }
  if (!compiler || !compiler->options.python || !compiler->argument) {
    yk_grammar_compiler_free(compiler);
    return yk_err_set(err, YK_E_NOMEM, "no memory for a grammar compiler");
  }
  *out = compiler;
  return YK_OK;
}

void yk_grammar_compiler_free(yk_grammar_compiler *compiler)
{
  if (!compiler) return;
  yk_helper_end(&compiler->helper);
  free((char *)(uintptr_t)compiler->options.python);
  free(compiler->argument);
  free(compiler);
}

static void append_member(yk_strbuf *out, const char *name, const char *text, size_t n_bytes)
{
  yk_strbuf_append_fmt(out, "%s\"%s\": ", out->length ? ", " : "{", name);
  yk_json_append_string(out, text, n_bytes);
}

/* Sends a request, and frees it. */
static yk_status call(yk_grammar_compiler *compiler, yk_strbuf *request, double time_limit_s, yk_json_doc **answer,
                      yk_err *err)
{
  yk_strbuf_append_str(request, "}");
  yk_status status = request->failed
                         ? yk_err_set(err, YK_E_NOMEM, "no memory for a request to the grammar helper")
                         : yk_helper_call(&compiler->helper, request->data, request->length, time_limit_s, answer, err);
  yk_strbuf_free(request);
  return status;
}

/* The error in an answer. */
static yk_status read_refusal(const yk_grammar_compiler *compiler, yk_json answer, yk_err *err)
{
  char limit[YK_BYTES_TEXT];
  const char *refused = yk_json_string(yk_json_get(answer, "refused"));
  const char *unsupported = yk_json_string(yk_json_get(answer, "unsupported"));
  if (refused) return yk_err_set(err, YK_E_INVAL, "%s", refused);
  if (unsupported) return yk_err_set(err, YK_E_UNSUPPORTED, "%s", unsupported);
  if (!yk_json_get(answer, "memory").doc)
    return yk_err_set(err, YK_E_INTERNAL, "grammar helper: expected a known answer");
  return yk_err_set(err, YK_E_INVAL, "too complex: compiling takes more memory than its limit (%s)",
                    yk_bytes_format(compiler->options.memory_limit_bytes, limit));
}

static yk_status start(yk_grammar_compiler *compiler, yk_err *err)
{
  const yk_grammar_compiler_options *o = &compiler->options;
  const yk_helper_program program = {.files = yk_grammar_helper_files,
                                     .modules = MODULES,
                                     .n_modules = sizeof MODULES / sizeof *MODULES,
                                     .argument = compiler->argument};
  double longest_s = o->time_limit_s > START_TIME_LIMIT_S ? o->time_limit_s : START_TIME_LIMIT_S;
  yk_strbuf request = YK_STRBUF_INIT;
  yk_json_doc *answer;
  yk_helper_end(&compiler->helper);
  YK_TRY(yk_helper_start(o->python, &program, o->memory_limit_bytes, longest_s, &compiler->helper, err));
  append_member(&request, "tokenizer", o->tokenizer, strlen(o->tokenizer));
  yk_strbuf_append_fmt(&request, ", \"special\": %s", o->special);
  YK_TRY(call(compiler, &request, START_TIME_LIMIT_S, &answer, err));
  bool is_ready = yk_json_get(yk_json_root(answer), "ready").doc != NULL;
  yk_status status = is_ready ? YK_OK : read_refusal(compiler, yk_json_root(answer), err);
  yk_json_free(answer);
  if (!is_ready) yk_helper_end(&compiler->helper);
  return status == YK_E_INVAL ? YK_E_INTERNAL : status; /* the tokenizer is no client's */
}

/* The error of a constraint after a failed exchange. */
static yk_status explain(const yk_grammar_compiler *compiler, const yk_err *cause, yk_err *err)
{
  if (cause->code == YK_E_TIMEOUT)
    return yk_err_set(err, YK_E_INVAL, "too complex: compiling takes longer than its limit of %g s",
                      compiler->options.time_limit_s);
  if (cause->code == YK_E_IO) return yk_err_set(err, YK_E_INVAL, "too complex: compiling has ended the helper process");
  return yk_err_set(err, cause->code, "%s", cause->message);
}

yk_status yk_grammar_compile(yk_grammar_compiler *compiler, const char *kind, const char *text, size_t n_bytes,
                             yk_strbuf *out, yk_err *err)
{
  yk_strbuf request = YK_STRBUF_INIT;
  yk_json_doc *answer;
  yk_err cause = YK_ERR_INIT;
  if (!yk_helper_is_alive(&compiler->helper)) {
    yk_status started = start(compiler, err);
    if (started != YK_OK) yk_err_prefix(err, "grammar helper");
    if (started != YK_OK) return started;
  }
  append_member(&request, "kind", kind, strlen(kind));
  append_member(&request, "text", text, n_bytes);
  if (call(compiler, &request, compiler->options.time_limit_s, &answer, &cause) != YK_OK)
    return explain(compiler, &cause, err);
  yk_json compiled = yk_json_get(yk_json_root(answer), "compiled");
  yk_status status = YK_OK;
  if (yk_json_is(compiled, YK_JSON_STRING))
    yk_strbuf_append(out, yk_json_string(compiled), yk_json_length(compiled));
  else
    status = read_refusal(compiler, yk_json_root(answer), err);
  yk_json_free(answer);
  if (status == YK_OK && out->failed) return yk_err_set(err, YK_E_NOMEM, "no memory for a compiled grammar");
  return status;
}
