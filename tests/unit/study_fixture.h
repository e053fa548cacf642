/* study_fixture.h - comparison of numbers, and points of synthetic studies. */
#ifndef TESTS_UNIT_STUDY_FIXTURE_H
#define TESTS_UNIT_STUDY_FIXTURE_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/json_tree.h"
#include "study/shapes.h"

/* All linear layers have weights with this number of bytes. */
#define ALIKE(bytes)                                                                                                   \
  {                                                                                                                    \
    (bytes), (bytes), (bytes), (bytes)                                                                                 \
  }

static inline void near(double found, double expected, double relative)
{
  if (!(fabs(found - expected) <= relative * fabs(expected))) fail_msg("expected %.12g, found %.12g", expected, found);
}

/* The shapes of a model of golden/families. */
static inline yk_model_shapes golden_shapes(const char *name)
{
  char dir[256];
  yk_model_shapes shapes;
  yk_err err = YK_ERR_INIT;
  snprintf(dir, sizeof dir, "%s/golden/families/%s", YOKE_TESTS_DIR, name);
  if (yk_model_shapes_read(dir, &shapes, &err) != YK_OK) fail_msg("%s", err.message);
  return shapes;
}

static inline double number_of(const json_t *object, const char *key)
{
  return json_number_value(json_object_get(object, key));
}

/* A point whose runs have these throughputs, two starts of two runs. */
static inline json_t *make_point(int ranks, int batch, double throughput, double spread)
{
  json_t *runs = json_array();
  for (int i = 0; i < 4; i++)
    json_array_append_new(runs, json_pack("{s:i, s:i, s:f, s:f}", "start", i / 2, "repeat", i % 2, "output_throughput",
                                          throughput * (1 + (i / 2 ? spread : -spread)), "mean_tpot_ms",
                                          1000 / throughput * (1 + (i / 2 ? spread : -spread))));
  return json_pack("{s:i, s:i, s:i, s:i, s:{}, s:f, s:o}", "ranks", ranks, "batch", batch, "input_len", 16,
                   "output_len", 8, "options", "output_throughput", throughput, "runs", runs);
}

static inline void set_time(json_t *point, const char *part, double us)
{
  json_t *times = json_object_get(point, "time_us");
  if (!times) {
    times = json_pack("{s:i}", "n_steps", 10);
    json_object_set_new(point, "time_us", times);
  }
  json_object_set_new(times, part, json_real(us));
}

#endif
