#include "study/csv.h"

#include <stdlib.h>
#include <string.h>

/* Sets one column of a point that is flattened to names of columns and values. */
static int set(json_t *row, const char *prefix, const char *name, const char *suffix, json_t *value)
{
  yk_strbuf column = YK_STRBUF_INIT;
  yk_strbuf_append_fmt(&column, "%s%s%s", prefix, name, suffix);
  int failed = column.failed ? -1 : json_object_set(row, column.data, value);
  yk_strbuf_free(&column);
  return failed;
}

static int add_interval(json_t *row, const char *name, json_t *interval)
{
  if (json_array_size(interval) != 2) return 0;
  return set(row, "", name, "_low", json_array_get(interval, 0)) |
         set(row, "", name, "_high", json_array_get(interval, 1));
}

/* Adds the members of an object in a point. */
static int add_members(json_t *row, const char *prefix, json_t *object)
{
  int failed = 0;
  const char *name;
  json_t *value;
  json_object_foreach(object, name, value)
  {
    if (strcmp(prefix, "intervals_") == 0)
      failed |= add_interval(row, name, value);
    else if (json_is_number(value) || json_is_string(value))
      failed |= set(row, prefix, name, "", value);
  }
  return failed;
}

static int add_member(json_t *row, const char *name, json_t *value)
{
  static const struct {
    const char *name, *prefix;
  } nested[] = {{"options", ""},       {"intervals", "intervals_"}, {"limit", "limit_"},
                {"losses", "losses_"}, {"time_us", "time_us_"},     {"time_us_prefill", "time_us_prefill_"}};
  if (json_is_number(value)) return set(row, "", name, "", value);
  if (strcmp(name, "speedup_interval") == 0) return add_interval(row, "speedup", value);
  if (strcmp(name, "efficiency_interval") == 0) return add_interval(row, "efficiency", value);
  for (size_t i = 0; i < sizeof nested / sizeof *nested; i++)
    if (strcmp(name, nested[i].name) == 0) return add_members(row, nested[i].prefix, value);
  return 0;
}

static json_t *flatten(const json_t *point)
{
  json_t *row = json_object(), *value;
  const char *name;
  int failed = row == NULL;
  json_object_foreach((json_t *)point, name, value) failed |= add_member(row, name, value);
  if (!failed) return row;
  json_decref(row);
  return NULL;
}

/* Appends a field, quoted if necessary. */
static void append_field(yk_strbuf *out, const char *text)
{
  if (!strpbrk(text, ",\"\r\n")) {
    yk_strbuf_append_str(out, text);
    return;
  }
  yk_strbuf_append_str(out, "\"");
  for (const char *at = text; *at; at++) yk_strbuf_append(out, *at == '"' ? "\"\"" : at, *at == '"' ? 2 : 1);
  yk_strbuf_append_str(out, "\"");
}

static void append_value(yk_strbuf *out, const json_t *value)
{
  if (json_is_string(value))
    append_field(out, json_string_value(value));
  else if (json_is_integer(value))
    yk_strbuf_append_fmt(out, "%lld", (long long)json_integer_value(value));
  else if (json_is_number(value))
    yk_strbuf_append_fmt(out, "%.9g", json_number_value(value));
}

static void append_rows(yk_strbuf *out, const json_t *rows, const json_t *columns)
{
  const char *name;
  json_t *row, *value;
  size_t i;
  bool is_first = true;
  json_object_foreach((json_t *)columns, name, value)
  {
    if (!is_first) yk_strbuf_append_str(out, ",");
    append_field(out, name);
    is_first = false;
  }
  yk_strbuf_append_str(out, "\r\n");
  json_array_foreach(rows, i, row)
  {
    is_first = true;
    json_object_foreach((json_t *)columns, name, value)
    {
      if (!is_first) yk_strbuf_append_str(out, ",");
      append_value(out, json_object_get(row, name));
      is_first = false;
    }
    yk_strbuf_append_str(out, "\r\n");
  }
}

yk_status yk_study_csv(const json_t *study, yk_strbuf *out, yk_err *err)
{
  json_t *rows = json_array(), *columns = json_object(), *point, *value;
  const char *name;
  size_t i;
  int failed = !rows || !columns;
  json_array_foreach(json_object_get(study, "points"), i, point)
  {
    json_t *row = flatten(point);
    json_object_foreach(row, name, value)
    {
      if (!json_object_get(columns, name)) failed |= json_object_set(columns, name, value);
    }
    failed |= json_array_append_new(rows, row);
  }
  if (!failed) append_rows(out, rows, columns);
  json_decref(rows);
  json_decref(columns);
  return failed || out->failed ? yk_err_set(err, YK_E_NOMEM, "no memory for a table of points") : YK_OK;
}
