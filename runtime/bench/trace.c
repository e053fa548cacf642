#include "bench/trace.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/json_tree.h"

enum { MAX_TOKENS = 1 << 30, MAX_COLUMNS = 64 };

static const size_t max_bytes = (size_t)1 << 30;

/* A line without its end. */
typedef struct line {
  const char *text;
  size_t n_bytes;
  long number; /* from 1 */
} line;

typedef struct reader {
  const char *name, *at, *end;
  long number;
  yk_bench_trace *out;
  size_t capacity;
  double first_s;
  int column_of[3]; /* CSV: input, output, time; -1: none */
  bool is_date;
} reader;

static bool next_line(reader *r, line *out)
{
  while (r->at < r->end) {
    const char *stop = memchr(r->at, '\n', (size_t)(r->end - r->at));
    const char *next = stop ? stop + 1 : r->end;
    if (!stop) stop = r->end;
    *out = (line){r->at, (size_t)(stop - r->at), ++r->number};
    r->at = next;
    while (out->n_bytes > 0 && isspace((unsigned char)out->text[out->n_bytes - 1])) out->n_bytes--;
    if (out->n_bytes > 0) return true;
  }
  return false;
}

static yk_status add_row(reader *r, double time_s, bool has_time, int64_t input, int64_t output, yk_err *err)
{
  yk_bench_trace *trace = r->out;
  if (trace->n_rows == r->capacity) {
    r->capacity = r->capacity ? 2 * r->capacity : 1024;
    yk_bench_trace_row *rows = realloc(trace->rows, r->capacity * sizeof *rows);
    if (!rows) return yk_err_set(err, YK_E_NOMEM, "%s: no memory for %zu rows", r->name, r->capacity);
    trace->rows = rows;
  }
  if (trace->n_rows == 0) {
    trace->has_times = has_time;
    r->first_s = time_s;
  }
  if (trace->has_times != has_time)
    return yk_err_set(err, YK_E_FORMAT, "%s:%ld: expected a timestamp in every row or in none, found %s", r->name,
                      r->number, has_time ? "one" : "none");
  double since_s = has_time ? time_s - r->first_s : 0;
  if (trace->n_rows > 0 && since_s < trace->rows[trace->n_rows - 1].time_s)
    return yk_err_set(err, YK_E_FORMAT, "%s:%ld: expected no earlier timestamp than in the row before, found %g s less",
                      r->name, r->number, trace->rows[trace->n_rows - 1].time_s - since_s);
  trace->rows[trace->n_rows++] =
      (yk_bench_trace_row){since_s, input > 0 ? (int32_t)input : 1, output > 0 ? (int32_t)output : 1};
  return YK_OK;
}

/* ---- JSONL */

static yk_status read_object(reader *r, const json_t *object, yk_err *err)
{
  int64_t input = 0, output = 0;
  double time_ms = 0;
  char place[YK_ERR_MESSAGE_BYTES / 2];
  snprintf(place, sizeof place, "%s:%ld", r->name, r->number);
  if (!json_is_object(object))
    return yk_err_set(err, YK_E_FORMAT, "%s: expected an object, found %s", place, yk_tree_type_name(object));
  YK_TRY(yk_tree_get_i64(object, place, "input_length", true, 0, MAX_TOKENS, &input, err));
  YK_TRY(yk_tree_get_i64(object, place, "output_length", true, 0, MAX_TOKENS, &output, err));
  YK_TRY(yk_tree_get_f64(object, place, "timestamp", false, -1e18, 1e18, &time_ms, err));
  bool has_time = json_is_number(json_object_get(object, "timestamp"));
  return add_row(r, time_ms * 1e-3, has_time, input, output, err);
}

static yk_status read_jsonl(reader *r, yk_err *err)
{
  line l;
  while (next_line(r, &l)) {
    json_t *object;
    yk_status status = yk_tree_parse_line(l.text, l.n_bytes, &object, err);
    if (status != YK_OK) {
      yk_err_prefix(err, "%s:%ld", r->name, r->number);
      return status;
    }
    status = read_object(r, object, err);
    json_decref(object);
    YK_TRY(status);
  }
  return YK_OK;
}

/* ---- CSV */

/* Splits a line at commas into fields, without quotes and surrounding space. Returns their number. */
static int split(const line *l, line fields[MAX_COLUMNS])
{
  int n = 0;
  const char *at = l->text, *end = l->text + l->n_bytes;
  while (n < MAX_COLUMNS) {
    const char *comma = memchr(at, ',', (size_t)(end - at)), *stop = comma ? comma : end;
    line field = {at, (size_t)(stop - at), l->number};
    while (field.n_bytes > 0 && (isspace((unsigned char)*field.text) || *field.text == '"')) {
      field.text++;
      field.n_bytes--;
    }
    while (field.n_bytes > 0 && strchr(" \t\r\"", field.text[field.n_bytes - 1])) field.n_bytes--;
    fields[n++] = field;
    if (!comma) break;
    at = comma + 1;
  }
  return n;
}

static bool is_named(const line *field, const char *name)
{
  return field->n_bytes == strlen(name) && strncmp(field->text, name, field->n_bytes) == 0;
}

static yk_status read_header(reader *r, yk_err *err)
{
  static const char *const names[3][2] = {
      {"ContextTokens", "input_length"}, {"GeneratedTokens", "output_length"}, {"TIMESTAMP", "timestamp"}};
  line header, fields[MAX_COLUMNS];
  if (!next_line(r, &header)) return YK_OK; /* no rows: reported by the caller */
  int n = split(&header, fields);
  for (int k = 0; k < 3; k++) {
    r->column_of[k] = -1;
    for (int i = 0; i < n; i++)
      if (is_named(&fields[i], names[k][0]) || is_named(&fields[i], names[k][1])) r->column_of[k] = i;
    if (r->column_of[k] < 0 && k < 2)
      return yk_err_set(err, YK_E_FORMAT, "%s:%ld: expected a column %s or %s, found \"%.*s\"", r->name, r->number,
                        names[k][0], names[k][1], header.n_bytes < 80 ? (int)header.n_bytes : 80, header.text);
  }
  r->is_date = r->column_of[2] >= 0 && is_named(&fields[r->column_of[2]], "TIMESTAMP");
  return YK_OK;
}

/* Copies a field, which is short, as text. */
static void copy_field(const line *field, char out[64])
{
  size_t n = field->n_bytes < 63 ? field->n_bytes : 63;
  memcpy(out, field->text, n);
  out[n] = '\0';
}

static yk_status read_length(const reader *r, const line *field, const char *which, int64_t *out, yk_err *err)
{
  char text[64], *end;
  copy_field(field, text);
  *out = strtoll(text, &end, 10);
  bool is_number = isdigit((unsigned char)text[0]) && *end == '\0' && field->n_bytes < 20;
  if (is_number && *out <= MAX_TOKENS) return YK_OK;
  return yk_err_set(err, YK_E_FORMAT, "%s:%ld: %s: expected a whole number from 0 to %d, found \"%s\"", r->name,
                    r->number, which, MAX_TOKENS, text);
}

/* Converts "2023-11-16 18:15:46.6805900", optionally followed by +00:00, to seconds. */
static bool parse_date(const char *text, double *out)
{
  struct tm date = {0};
  double seconds;
  int n_read = 0;
  char separator;
  int n = sscanf(text, "%4d-%2d-%2d%c%2d:%2d:%lf%n", &date.tm_year, &date.tm_mon, &date.tm_mday, &separator,
                 &date.tm_hour, &date.tm_min, &seconds, &n_read);
  const char *rest = text + n_read;
  bool is_utc = *rest == '\0' || strcmp(rest, "Z") == 0 || strcmp(rest, "+00:00") == 0;
  bool is_time = n == 7 && (separator == ' ' || separator == 'T') && seconds >= 0 && seconds < 61 && is_utc;
  if (!is_time || date.tm_mon < 1 || date.tm_mon > 12 || date.tm_mday < 1 || date.tm_mday > 31) return false;
  if (date.tm_hour < 0 || date.tm_hour > 23 || date.tm_min < 0 || date.tm_min > 59) return false;
  date.tm_year -= 1900;
  date.tm_mon--;
  *out = (double)timegm(&date) + seconds;
  return true;
}

static yk_status read_time(const reader *r, const line *field, double *out, yk_err *err)
{
  char text[64], *end;
  copy_field(field, text);
  if (r->is_date && parse_date(text, out)) return YK_OK;
  if (r->is_date)
    return yk_err_set(err, YK_E_FORMAT, "%s:%ld: TIMESTAMP: expected a date as 2023-11-16 18:15:46.68, found \"%s\"",
                      r->name, r->number, text);
  *out = strtod(text, &end) * 1e-3;
  if (end != text && *end == '\0' && *out > -1e15 && *out < 1e15) return YK_OK;
  return yk_err_set(err, YK_E_FORMAT, "%s:%ld: timestamp: expected milliseconds, found \"%s\"", r->name, r->number,
                    text);
}

static yk_status read_csv(reader *r, yk_err *err)
{
  line l, fields[MAX_COLUMNS];
  YK_TRY(read_header(r, err));
  while (next_line(r, &l)) {
    int n = split(&l, fields);
    int64_t input, output;
    double time_s = 0;
    for (int k = 0; k < 3; k++)
      if (r->column_of[k] >= n)
        return yk_err_set(err, YK_E_FORMAT, "%s:%ld: expected at least %d columns, found %d", r->name, r->number,
                          r->column_of[k] + 1, n);
    YK_TRY(read_length(r, &fields[r->column_of[0]], "length of the input", &input, err));
    YK_TRY(read_length(r, &fields[r->column_of[1]], "length of the output", &output, err));
    if (r->column_of[2] >= 0) YK_TRY(read_time(r, &fields[r->column_of[2]], &time_s, err));
    YK_TRY(add_row(r, time_s, r->column_of[2] >= 0, input, output, err));
  }
  return YK_OK;
}

/* ---- Interface */

yk_status yk_bench_trace_parse(const char *name, const char *text, size_t n_bytes, yk_bench_trace *out, yk_err *err)
{
  static const char byte_order_mark[] = "\xEF\xBB\xBF";
  reader r = {.name = name, .at = text, .end = text + n_bytes, .out = out};
  *out = (yk_bench_trace){0};
  if (n_bytes >= 3 && memcmp(text, byte_order_mark, 3) == 0) r.at += 3;
  const char *first = r.at;
  while (first < r.end && isspace((unsigned char)*first)) first++;
  yk_status status = first < r.end && *first == '{' ? read_jsonl(&r, err) : read_csv(&r, err);
  if (status == YK_OK && out->n_rows == 0)
    status = yk_err_set(err, YK_E_FORMAT, "%s: expected rows of lengths, found none", name);
  if (status != YK_OK) yk_bench_trace_free(out);
  return status;
}

yk_status yk_bench_trace_read(const char *path, yk_bench_trace *out, yk_err *err)
{
  char *text;
  size_t n_bytes;
  *out = (yk_bench_trace){0};
  YK_TRY(yk_file_read(path, max_bytes, &text, &n_bytes, err));
  yk_status status = yk_bench_trace_parse(path, text, n_bytes, out, err);
  free(text);
  return status;
}

void yk_bench_trace_free(yk_bench_trace *trace)
{
  free(trace->rows);
  *trace = (yk_bench_trace){0};
}
