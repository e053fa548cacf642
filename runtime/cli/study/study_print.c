#include "cli/study/study_print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/strbuf.h"
#include "study/scaling.h"

enum { REDRAW_MS = 200, TEXT_BYTES = 256 };

const char *yk_study_format_seconds(double seconds, char buffer[32])
{
  long long whole = seconds < 1e12 ? (long long)(seconds + 0.5) : 999999999999;
  snprintf(buffer, 32, "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
  return buffer;
}

/* ---- Points left out --------------------------------------------------------------------------------------------- */

/* Number of points of a configuration if all have the same reason; else 0. */
static size_t count_alike(const yk_study_grid *grid, size_t first)
{
  size_t n = 0;
  for (size_t i = first; i < grid->n_points && grid->points[i].config == grid->points[first].config; i++, n++)
    if (strcmp(grid->points[i].reason, grid->points[first].reason) != 0) return 0;
  return n;
}

void yk_study_print_skipped(const yk_study_printer *printer)
{
  const yk_study_grid *grid = printer->grid;
  char text[TEXT_BYTES];
  for (size_t i = 0; i < grid->n_points; i++) {
    const yk_study_point *point = &grid->points[i];
    bool is_first = i == 0 || grid->points[i - 1].config != point->config;
    size_t n_alike = is_first ? count_alike(grid, i) : 0;
    if (!point->reason[0]) continue;
    if (n_alike > 1) {
      yk_study_config_describe(grid, point->config, text, sizeof text);
      yk_log_write(&printer->console->log, YK_LOG_WARN, "left out: %s, all %zu points: %s", text, n_alike,
                   point->reason);
      i += n_alike - 1;
      continue;
    }
    yk_study_point_describe(grid, i, text, sizeof text);
    yk_log_write(&printer->console->log, YK_LOG_WARN, "left out: %s: %s", text, point->reason);
  }
}

/* ---- Progress ---------------------------------------------------------------------------------------------------- */

void yk_study_print_progress(void *user, const yk_study_progress *progress)
{
  yk_study_printer *printer = user;
  char what[TEXT_BYTES], left[32], text[2 * TEXT_BYTES];
  int64_t now_ns = yk_clock_now_ns();
  size_t config = printer->grid->points[progress->point].config;
  yk_study_format_seconds(progress->left_s, left);
  if (progress->starts_engine) {
    yk_study_config_describe(printer->grid, config, what, sizeof what);
    yk_log_write(&printer->console->log, YK_LOG_INFO, "starting %s; %zu of %zu runs done, about %s left", what,
                 progress->n_done, progress->n_items, left);
  }
  if (!printer->console->has_bar || now_ns - printer->drawn_ns < (int64_t)REDRAW_MS * 1000000) return;
  printer->drawn_ns = now_ns;
  yk_study_point_describe(printer->grid, progress->point, what, sizeof what);
  snprintf(text, sizeof text, "%zu of %zu runs  %s left  %s", progress->n_done, progress->n_items, left, what);
  yk_console_bar(printer->console, "study", (double)progress->n_done / (double)progress->n_items, text);
}

/* ---- The table --------------------------------------------------------------------------------------------------- */

static double number_of(const json_t *object, const char *key)
{
  return json_number_value(json_object_get(object, key));
}

/* "1.83 (1.79 .. 1.87)"; "-" if there is none. */
static const char *with_interval(const json_t *value, const json_t *interval, int digits, char buffer[64])
{
  snprintf(buffer, 64, "-");
  if (!json_is_number(value)) return buffer;
  snprintf(buffer, 64, "%.*f", digits, json_number_value(value));
  size_t used = strlen(buffer);
  if (json_array_size(interval) == 2)
    snprintf(buffer + used, 64 - used, " (%.*f .. %.*f)", digits, json_number_value(json_array_get(interval, 0)),
             digits, json_number_value(json_array_get(interval, 1)));
  return buffer;
}

enum { N_COLUMNS = 6, POINT_COLUMN = 1, LEAST_POINT_CHARS = 16 };

typedef struct row {
  char *cells[N_COLUMNS]; /* owned */
} row;

static void write_limit(const json_t *limit, char text[TEXT_BYTES])
{
  const char *bound = json_string_value(json_object_get(limit, "bound"));
  snprintf(text, TEXT_BYTES, "-");
  if (!limit) return;
  int used = snprintf(text, TEXT_BYTES, "%.1f %% (%.40s)", 100 * number_of(limit, "share"), bound ? bound : "?");
  if (json_object_get(limit, "offered_share"))
    snprintf(text + used, (size_t)(TEXT_BYTES - used), ", %.1f %% of the offered rate",
             100 * number_of(limit, "offered_share"));
}

/* The point's settings; of a study over several processes with their number. */
static char *describe_point(const json_t *point)
{
  char *key = yk_scaling_key(point);
  const int n_processes = (int)number_of(point, "processes"), n_hosts = (int)number_of(point, "hosts");
  yk_strbuf text = YK_STRBUF_INIT;
  if (!key || n_processes == 0) return key;
  yk_strbuf_append_fmt(&text, "%s, %d process%s", key, n_processes, n_processes > 1 ? "es" : "");
  if (n_hosts > 1) yk_strbuf_append_fmt(&text, " on %d hosts", n_hosts);
  free(key);
  if (!text.failed) return text.data;
  yk_strbuf_free(&text);
  return NULL;
}

/* If ranks share a machine's cores there is no efficiency: more ranks are not more hardware. */
static void fill_row(const json_t *point, bool shares_cores, row *out)
{
  char text[TEXT_BYTES];
  const json_t *intervals = json_object_get(point, "intervals");
  const json_t *efficiency = shares_cores ? NULL : json_object_get(point, "efficiency");
  snprintf(text, sizeof text, "%d", (int)number_of(point, "ranks"));
  out->cells[0] = strdup(text);
  out->cells[1] = describe_point(point);
  out->cells[2] = strdup(with_interval(json_object_get(point, "output_throughput"),
                                       json_object_get(intervals, "output_throughput"), 1, text));
  out->cells[3] =
      strdup(with_interval(json_object_get(point, "speedup"), json_object_get(point, "speedup_interval"), 2, text));
  out->cells[4] = strdup(with_interval(efficiency, json_object_get(point, "efficiency_interval"), 2, text));
  write_limit(json_object_get(point, "limit"), text);
  out->cells[5] = strdup(text);
}

/* Prints the line of a row; columns: width of the terminal, 0: unlimited. */
static void print_cells(const row *cells, const size_t widths[N_COLUMNS], size_t columns)
{
  yk_strbuf line = YK_STRBUF_INIT;
  for (int i = 0; i < N_COLUMNS; i++) {
    const char *cell = cells->cells[i] ? cells->cells[i] : "";
    int width = (int)widths[i], length = (int)strlen(cell);
    if (i == 0)
      yk_strbuf_append_fmt(&line, "%*s", width, cell);
    else if (i == POINT_COLUMN && length > width)
      yk_strbuf_append_fmt(&line, "  %.*s...", width - 3, cell);
    else
      yk_strbuf_append_fmt(&line, "  %-*s", i == N_COLUMNS - 1 ? 0 : width, cell);
  }
  if (!line.failed) puts(yk_console_cut(line.data, columns));
  yk_strbuf_free(&line);
}

void yk_study_print_table(const json_t *study)
{
  static const row head = {{"ranks", "point", "output tokens/s", "speed-up", "efficiency", "of the limit"}};
  const json_t *points = json_object_get(study, "points");
  const char *device = json_string_value(json_object_get(json_object_get(study, "machine"), "device"));
  bool shares_cores = device && strcmp(device, "cpu") == 0;
  size_t n = json_array_size(points), columns = yk_console_columns(STDOUT_FILENO), widths[N_COLUMNS], total = 0;
  row *rows = calloc(n + 1, sizeof *rows);
  if (!rows) return;
  for (size_t i = 0; i < n; i++) fill_row(json_array_get(points, i), shares_cores, &rows[i]);
  for (int c = 0; c < N_COLUMNS; c++) {
    widths[c] = strlen(head.cells[c]);
    for (size_t i = 0; i < n; i++) {
      size_t length = rows[i].cells[c] ? strlen(rows[i].cells[c]) : 0;
      widths[c] = length > widths[c] ? length : widths[c];
    }
    total += widths[c] + (c ? 2 : 0);
  }
  if (columns && total > columns) { /* the excess is cut from the points' names */
    size_t least = widths[POINT_COLUMN] < LEAST_POINT_CHARS ? widths[POINT_COLUMN] : LEAST_POINT_CHARS;
    size_t spare = widths[POINT_COLUMN] - least;
    widths[POINT_COLUMN] -= total - columns < spare ? total - columns : spare;
  }
  print_cells(&head, widths, columns);
  for (size_t i = 0; i < n; i++) {
    print_cells(&rows[i], widths, columns);
    for (int c = 0; c < N_COLUMNS; c++) free(rows[i].cells[c]);
  }
  free(rows);
}
