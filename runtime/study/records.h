/* records.h - the measurements so far: the records of a journal, sorted by point and configuration.
 *
 *   {"type": "machine", "machine": {...}}                         once
 *   {"type": "engine", "config": 0, "start": 0, "seconds": 1.5, "info": {...}}      an engine was started
 *   {"type": "run", "point": 3, "start": 0, "repeat": 1, "seconds": 2.5, "figures": {...}}
 *   {"type": "profile", "point": 3, "start": 1, "seconds": 2.5, "times": {...}}
 *   {"type": "skip", "point": 3, "reason": "..."}                 the point turned out to be impossible
 *
 * An interrupted start is repeated for the missing runs: for statistics these are two starts, so runs are stored with
 * the number of their engine. */
#ifndef YK_STUDY_RECORDS_H
#define YK_STUDY_RECORDS_H

#include "study/order.h"

typedef struct yk_study_records {
  yk_study_grid *grid; /* owned by the caller; a skip sets a point's reason */
  json_t **runs;       /* [n_points] arrays of "run" records, each with "engine", the engine's number in its config */
  json_t **profiles;   /* [n_points] "times", or NULL */
  json_t **infos;      /* [n_configs] "info" of the latest engine; or NULL */
  int *n_engines;      /* [n_configs] */
  json_t *machine;     /* or NULL */
} yk_study_records;

/* yk_study_records_init - no measurements. Free with yk_study_records_free, even after an error.
 *   Errors: YK_E_NOMEM. */
yk_status yk_study_records_init(yk_study_records *records, yk_study_grid *grid, yk_err *err);
void yk_study_records_free(yk_study_records *records);

/* yk_study_records_take - sort one record in. A record of an unknown type is refused.
 *   Errors: YK_E_FORMAT with the key and the expected value, YK_E_NOMEM. */
yk_status yk_study_records_take(yk_study_records *records, const json_t *record, yk_err *err);

/* yk_study_records_has - whether an item is finished, or its point turned out to be impossible. */
bool yk_study_records_has(const yk_study_records *records, const yk_study_item *item);

#endif
