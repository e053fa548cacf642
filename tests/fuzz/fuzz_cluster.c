/* Any bytes are a message of the roll call or an error; the number in front chooses which message. A message that is
 * accepted gives a table, and the same bytes when it is written again. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "parallel/cluster/frame.h"
#include "parallel/cluster/roll.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void require(bool condition)
{
  if (!condition) abort();
}

/* The entry as process 0, and its copy as process 1: for any content, yk_roll_decide returns a decision. */
static void read_entry(const uint8_t *data, size_t n_bytes)
{
  yk_roll_entry *entries[2] = {NULL, NULL};
  yk_err err = YK_ERR_INIT;
  if (yk_roll_read_entry(data, n_bytes, &entries[0], &err) != YK_OK) {
    require(err.code == YK_E_COMM);
    return;
  }
  require(entries[0]->n_facts <= YK_ROLL_MAX_FACTS && strlen(entries[0]->host) < YK_ROLL_HOST_BYTES);
  require(yk_roll_read_entry(data, n_bytes, &entries[1], &err) == YK_OK);
  for (int n = 1; n <= 2; n++) {
    yk_roll_decision decision = {.result = YK_ERR_INIT};
    yk_roll_decide(entries, n, "", &decision);
    require(decision.report && (decision.result.code == YK_OK) == (decision.n_peers == n));
    free(decision.report);
  }
  free(entries[0]);
  free(entries[1]);
}

static void read_decision(const uint8_t *data, size_t n_bytes)
{
  yk_roll_decision decision;
  yk_err err = YK_ERR_INIT;
  if (yk_roll_read_decision(data, n_bytes, &decision, &err) != YK_OK) {
    require(err.code == YK_E_COMM && !decision.report);
    return;
  }
  yk_strbuf again = YK_STRBUF_INIT;
  yk_roll_write_decision(&again, &decision);
  require(again.length == n_bytes && memcmp(again.data, data, n_bytes) == 0);
  yk_strbuf_free(&again);
  free(decision.report);
}

static void read_frame(const uint8_t *data, size_t n_bytes)
{
  yk_frame frame;
  if (n_bytes < sizeof frame) return;
  memcpy(&frame, data, sizeof frame);
  if (yk_frame_check(&frame, YK_FRAME_PROOF, YK_FRAME_HELLO, YK_FRAME_MAX_PROOF, NULL) != YK_OK) return;
  require(frame.n_bytes <= YK_FRAME_MAX_PROOF);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
  void (*const readers[])(const uint8_t *, size_t) = {read_entry, read_decision, read_frame};
  if (n_bytes == 0 || data[0] >= sizeof readers / sizeof *readers) return 0;
  readers[data[0]](data + 1, n_bytes - 1);
  return 0;
}
