/* yoke tokenize, yoke detokenize - convert text to token ids and back with the model's tokenizer.json. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "base/bom.h"
#include "base/json_tree.h"
#include "base/strbuf.h"
#include "cli/cli.h"
#include "cli/options/named_model.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

enum { FORMAT_TEXT, FORMAT_JSON };
static const char *const format_names[] = {"text", "json", NULL};

typedef struct converter converter;

/* The differences between the two commands. Each prints one line. */
typedef struct direction {
  const char *name, *usage, *about, *examples, *special_help;
  yk_status (*convert_operands)(converter *c, const yk_arguments *arguments, yk_err *err);
  yk_status (*convert_text)(converter *c, const char *text, size_t n_bytes, yk_err *err);
  yk_status (*convert_json)(converter *c, const json_t *value, yk_err *err);
} direction;

struct converter {
  const direction *direction;
  yk_named_model model;
  bool no_special_tokens;
  int format;
  yk_tokenizer *tokenizer;
  size_t n_failed;
};

static yk_status print_json(json_t *value, yk_err *err)
{
  int failed = value ? json_dumpf(value, stdout, JSON_COMPACT | JSON_ENCODE_ANY) : -1;
  json_decref(value);
  if (failed) return yk_err_set(err, YK_E_NOMEM, "no memory to print a line");
  putchar('\n');
  return YK_OK;
}

/* ---- Text to ids ------------------------------------------------------------------------------------------------- */

static yk_status encode(converter *c, const char *text, size_t n_bytes, yk_err *err)
{
  int32_t *ids;
  size_t n_ids;
  yk_status status = YK_OK;
  YK_TRY(yk_tokenizer_encode(c->tokenizer, text, n_bytes, !c->no_special_tokens, &ids, &n_ids, err));
  if (c->format == FORMAT_JSON) {
    json_t *array = json_array();
    for (size_t i = 0; i < n_ids; i++) json_array_append_new(array, json_integer(ids[i]));
    status = print_json(array, err);
  } else {
    for (size_t i = 0; i < n_ids; i++) printf("%s%d", i ? " " : "", ids[i]);
    putchar('\n');
  }
  free(ids);
  return status;
}

static yk_status encode_json(converter *c, const json_t *value, yk_err *err)
{
  if (!json_is_string(value))
    return yk_err_set(err, YK_E_INVAL, "expected a JSON string, found %s", yk_tree_type_name(value));
  return encode(c, json_string_value(value), json_string_length(value), err);
}

/* Each operand is a separate text. */
static yk_status encode_operands(converter *c, const yk_arguments *arguments, yk_err *err)
{
  for (size_t i = 0; i < arguments->n_operands; i++) {
    yk_status status = encode(c, arguments->operands[i], strlen(arguments->operands[i]), err);
    if (status != YK_OK) {
      yk_err_prefix(err, "text %zu", i + 1);
      return status;
    }
  }
  return YK_OK;
}

/* ---- Ids to text ------------------------------------------------------------------------------------------------- */

static yk_status decode(converter *c, const int32_t *ids, size_t n_ids, yk_err *err)
{
  yk_strbuf text = YK_STRBUF_INIT;
  yk_status status = yk_tokenizer_decode(c->tokenizer, ids, n_ids, c->no_special_tokens, &text, err);
  const char *data = text.length ? text.data : "";
  if (status == YK_OK && c->format == FORMAT_JSON) {
    status = print_json(json_stringn(data, text.length), err);
  } else if (status == YK_OK) {
    fwrite(data, 1, text.length, stdout);
    putchar('\n');
  }
  yk_strbuf_free(&text);
  return status;
}

static yk_status decode_json(converter *c, const json_t *value, yk_err *err)
{
  if (!json_is_array(value))
    return yk_err_set(err, YK_E_INVAL, "expected a JSON array of ids, found %s", yk_tree_type_name(value));
  size_t n_ids = json_array_size(value);
  int32_t *ids = malloc((n_ids + 1) * sizeof *ids);
  yk_status status = ids ? YK_OK : yk_err_set(err, YK_E_NOMEM, "no memory for %zu ids", n_ids);
  for (size_t i = 0; i < n_ids && status == YK_OK; i++) {
    const json_t *id = json_array_get(value, i);
    json_int_t number = json_is_integer(id) ? json_integer_value(id) : -1;
    if (number < 0 || number > INT32_MAX)
      status = yk_err_set(err, YK_E_INVAL, "element %zu: expected an integer from 0 to %d", i, INT32_MAX);
    else
      ids[i] = (int32_t)number;
  }
  if (status == YK_OK) status = decode(c, ids, n_ids, err);
  free(ids);
  return status;
}

static yk_status decode_text(converter *c, const char *text, size_t n_bytes, yk_err *err)
{
  int32_t *ids = NULL;
  size_t n_ids = 0;
  yk_status status = YK_OK;
  if (strlen(text) != n_bytes) return yk_err_set(err, YK_E_INVAL, "expected ids, found a NUL character");
  if (strspn(text, " \t\r\n") < n_bytes) status = yk_int_list_parse(text, &ids, &n_ids, err);
  if (status == YK_OK) status = decode(c, ids, n_ids, err);
  free(ids);
  return status;
}

/* All operands together form one text: 5 6 7 is 5,6,7. */
static yk_status decode_operands(converter *c, const yk_arguments *arguments, yk_err *err)
{
  int32_t *ids = NULL;
  size_t n_ids = 0;
  yk_status status = YK_OK;
  for (size_t i = 0; i < arguments->n_operands && status == YK_OK; i++)
    status = yk_int_list_parse(arguments->operands[i], &ids, &n_ids, err);
  if (status == YK_OK) status = decode(c, ids, n_ids, err);
  free(ids);
  return status;
}

/* ---- The commands ------------------------------------------------------------------------------------------------ */

static const direction to_ids = {
    "yoke tokenize",
    "--model DIR [options] [TEXT]...",
    "Print the token ids of each text, a line each; without a text, of standard input less one newline at its end. "
    "With --format json and no text: one JSON string a line on standard input, one array of ids a line on standard "
    "output. A line that cannot be converted gives {\"error\": ...} in its place, and exit code 1 at the end.",
    "  yoke tokenize -m Qwen3-8B-AWQ \"Hello, world\"\n"
    "  echo '\"Hello\\n\"' | yoke tokenize -m Qwen3-8B-AWQ --format json\n",
    "do not add the tokens that the model expects around a text",
    encode_operands,
    encode,
    encode_json,
};

static const direction to_text = {
    "yoke detokenize",
    "--model DIR [options] [ID]...",
    "Print the text of token ids; without ids, of those on standard input, between commas, spaces or newlines. "
    "With --format json and no ids: one JSON array of ids a line on standard input, one string a line on standard "
    "output. A line that cannot be converted gives {\"error\": ...} in its place, and exit code 1 at the end.",
    "  yoke detokenize -m Qwen3-8B-AWQ 9707 11 1879\n"
    "  echo '[9707,11,1879]' | yoke detokenize -m Qwen3-8B-AWQ --format json\n",
    "leave special tokens out of the text",
    decode_operands,
    decode_text,
    decode_json,
};

/* An invalid line is reported at its position, so that input and output lines correspond. */
static yk_status report_line(converter *c, size_t line, yk_err *line_err, yk_err *err)
{
  c->n_failed++;
  yk_err_prefix(line_err, "line %zu", line);
  yk_cli_failure(line_err);
  return print_json(
      json_pack("{s:{s:s, s:s}}", "error", "code", yk_status_name(line_err->code), "message", line_err->message), err);
}

static yk_status convert_line(converter *c, const char *text, size_t n_bytes, yk_err *err)
{
  json_t *value;
  YK_TRY(yk_tree_parse_line(text, n_bytes, &value, err));
  yk_status status = c->direction->convert_json(c, value, err);
  json_decref(value);
  return status;
}

static yk_status convert_lines(converter *c, yk_err *err)
{
  char *line = NULL;
  size_t capacity = 0, number = 0;
  ssize_t length;
  yk_status status = YK_OK;
  while (status == YK_OK && (length = getline(&line, &capacity, stdin)) >= 0) {
    yk_err line_err = YK_ERR_INIT;
    number++;
    if (length > 0 && line[length - 1] == '\n') length--;
    size_t n_bom_bytes = number == 1 ? yk_bom_bytes(line, (size_t)length) : 0;
    if (convert_line(c, line + n_bom_bytes, (size_t)length - n_bom_bytes, &line_err) != YK_OK)
      status = report_line(c, number, &line_err, err);
    if (status == YK_OK) status = yk_cli_flush(err); /* the writer of the line may be waiting */
  }
  free(line);
  if (status == YK_OK && ferror(stdin)) return yk_err_set(err, YK_E_IO, "standard input: cannot be read");
  return status;
}

static yk_status convert_stdin(converter *c, yk_err *err)
{
  char *text;
  size_t n_bytes;
  YK_TRY(yk_cli_read_text("-", SIZE_MAX, &text, &n_bytes, err));
  if (n_bytes && text[n_bytes - 1] == '\n') text[--n_bytes] = '\0';
  yk_status status = c->direction->convert_text(c, text, n_bytes, err);
  free(text);
  return status;
}

static yk_status run(converter *c, const yk_arguments *arguments, yk_err *err)
{
  YK_TRY(yk_named_model_find(&c->model, false, err));
  YK_TRY(yk_tokenizer_load(c->model.path, &c->tokenizer, err));
  if (arguments->n_operands)
    YK_TRY(c->direction->convert_operands(c, arguments, err));
  else if (c->format == FORMAT_JSON)
    YK_TRY(convert_lines(c, err));
  else
    YK_TRY(convert_stdin(c, err));
  return yk_cli_flush(err);
}

static int convert(const direction *way, int argc, char **argv)
{
  converter c = {.direction = way};
  const yk_option options[] = {
      {"no-special-tokens", NULL, YK_OPTION_FLAG, &c.no_special_tokens, .help = way->special_help},
      {"format", NULL, YK_OPTION_CHOICE, &c.format, .help = "of input and output, see above", .choices = format_names},
  };
  yk_option model[YK_NAMED_MODEL_OPTIONS];
  yk_named_model_options(&c.model, "a directory that holds tokenizer.json, that file, or ORG/NAME; required", model);
  const yk_option_group groups[] = {{"Options", options, sizeof options / sizeof options[0]},
                                    {"Model", model, YK_NAMED_MODEL_OPTIONS}};
  const yk_command command = {way->name, way->usage, way->about, way->examples, groups, 2, .takes_operands = true};
  yk_arguments arguments;
  int exit_code;
  if (!yk_cli_begin(&command, argc, argv, &arguments, &exit_code)) return exit_code;
  yk_err err = YK_ERR_INIT;
  if (!c.model.name || !c.model.name[0]) {
    yk_err_set(&err, YK_E_INVAL,
               "--model: expected a directory or a tokenizer.json, found nothing; operands are texts");
    return yk_cli_usage_error(&command, &err);
  }
  yk_status status = run(&c, &arguments, &err);
  yk_tokenizer_free(c.tokenizer);
  yk_named_model_free(&c.model);
  if (status != YK_OK) return yk_cli_failure(&err);
  return c.n_failed ? YK_EXIT_FAILURE : YK_EXIT_OK;
}

int yk_cli_tokenize(int argc, char **argv)
{
  return convert(&to_ids, argc, argv);
}

int yk_cli_detokenize(int argc, char **argv)
{
  return convert(&to_text, argc, argv);
}
