/* passed_fields.h - fields of requests that Yoke does not know: each is named in the log once, so that a mistyped one
 * is noticed and a client that always sends one fills no log. */
#ifndef YK_SERVER_PASSED_FIELDS_H
#define YK_SERVER_PASSED_FIELDS_H

#include <pthread.h>

#include "base/log.h"

enum {
  YK_PASSED_FIELDS = 64,
  YK_PASSED_FIELD_BYTES = 64
}; /* that are remembered; of a name. Later ones are not told */

typedef struct yk_passed_fields {
  const yk_log *log;
  pthread_mutex_t mutex; /* guards what follows */
  int n;
  char names[YK_PASSED_FIELDS][YK_PASSED_FIELD_BYTES];
} yk_passed_fields;

void yk_passed_fields_init(yk_passed_fields *fields, const yk_log *log);
void yk_passed_fields_destroy(yk_passed_fields *fields);

/* yk_passed_fields_note - for yk_openai_defaults.pass_over, with the fields. Any thread. */
void yk_passed_fields_note(void *fields, const char *name);

#endif
