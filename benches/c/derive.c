/*
 * Opponent for derived metrics: libpcp, driven by lines on stdin, one line of answer each. Fields are
 * separated by tabs. Times are processor time of a child made for each measurement, in nanoseconds.
 *
 *   archive PATH METRICS INSTANCES RECORDS   makes an archive of U64 counters m.n0, m.n1, ... and says "ok"
 *   source archive PATH | source host SPEC   where to fetch from, from now on: "ok"
 *   operands TEXT                            the format of the operands' names, with one %d: "ok"
 *   expression TEXT                          adds to the list of definitions d.n0, d.n1, ...: "ok"
 *   register                                 registers all on a context that is open, looks up each name and
 *                                            descriptor, fetches once: the time of it
 *   derived FETCHES, operands_only METRICS FETCHES
 *                                            opens a context, looks up all names, fetches so often and reads every
 *                                            value of the definitions: the time up to and with the first fetch,
 *                                            that of each fetch from the third on, and how many values the last had
 *   values FETCHES FILE                      the values of the last of so many fetches, for each definition a count,
 *                                            instances and doubles; the seconds between the last two fetches
 *
 * Built with: cc derive.c -lpcp -ldl
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <pcp/pmapi.h>

enum { MAX_EXPRESSIONS = 20000 };
static char *expressions[MAX_EXPRESSIONS], *operands = "m.n%d";
static int expression_count, source_type = PM_CONTEXT_ARCHIVE;
static char source[4096];
static pmID pmids[MAX_EXPRESSIONS];
static int types[MAX_EXPRESSIONS];
static pmResult *kept;
static double kept_seconds;
/* What reading came to, so that no compiler leaves it out. */
static double sum;
static long long values;

static void fail(const char *why, int code)
{
    printf("oracle: %s: %s\n", why, code < 0 ? pmErrStr(code) : "");
    fflush(stdout);
    _exit(1);
}

static void check(const char *what, int code)
{
    if (code < 0)
        fail(what, code);
}

static void *symbol(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (found == NULL)
        fail(name, 0);
    return found;
}

static long long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void make_archive(const char *path, int metrics, int instances, int records)
{
    void *library = dlopen("libpcp_import.so.1", RTLD_NOW);
    char name[64], text[64];
    if (library == NULL)
        fail("libpcp_import.so.1", 0);
    int (*start)(const char *, int) = symbol(library, "pmiStart");
    int (*metric)(const char *, pmID, int, pmInDom, int, pmUnits) = symbol(library, "pmiAddMetric");
    int (*instance)(pmInDom, const char *, int) = symbol(library, "pmiAddInstance");
    int (*handle)(const char *, const char *) = symbol(library, "pmiGetHandle");
    int (*value)(int, const char *) = symbol(library, "pmiPutValueHandle");
    int (*flush)(int, int) = symbol(library, "pmiWrite");
    int (*end)(void) = symbol(library, "pmiEnd");
    int *handles = calloc((size_t)metrics * instances, sizeof *handles);
    pmInDom indom = pmInDom_build(245, 1);
    pmUnits none = { 0 };
    check("pmiStart", start(path, 0));
    for (int i = 0; i < instances; i++) {
        snprintf(text, sizeof text, "instance%d", i);
        check(text, instance(indom, text, i));
    }
    for (int m = 0; m < metrics; m++) {
        snprintf(name, sizeof name, "m.n%d", m);
        check(name, metric(name, pmID_build(245, 0, m + 1), PM_TYPE_U64, indom, PM_SEM_COUNTER, none));
        for (int i = 0; i < instances; i++) {
            snprintf(text, sizeof text, "instance%d", i);
            check(text, handles[m * instances + i] = handle(name, text));
        }
    }
    for (int r = 0; r < records; r++) {
        for (int m = 0; m < metrics; m++)
            for (int i = 0; i < instances; i++) {
                snprintf(text, sizeof text, "%lld", r * (m + 1LL) * (1000 + 7 * i) + i);
                check("pmiPutValueHandle", value(handles[m * instances + i], text));
            }
        check("pmiWrite", flush(1700000000 + r, 0));
    }
    check("pmiEnd", end());
    free(handles);
}

static void open_context(void)
{
    int context = pmNewContext(source_type, source);
    struct timeval start = { 0, 0 };
    if (context < 0)
        fail("pmNewContext", context);
    if (source_type == PM_CONTEXT_ARCHIVE)
        pmSetMode(PM_MODE_FORW, &start, 0);
}

static void register_all(void)
{
    char name[64];
    for (int i = 0; i < expression_count; i++) {
        snprintf(name, sizeof name, "d.n%d", i);
        if (pmRegisterDerived(name, expressions[i]) != NULL)
            fail(expressions[i], 0);
    }
}

/* All names in one call, and all descriptors: as whoever has many of them asks for them. */
static void look_up(const char *format, int count)
{
    char (*texts)[64] = calloc(count, sizeof *texts);
    const char **names = calloc(count, sizeof *names);
    pmDesc *descs = calloc(count, sizeof *descs);
    for (int i = 0; i < count; i++) {
        snprintf(texts[i], sizeof texts[i], format, i);
        names[i] = texts[i];
    }
    check(format, pmLookupName(count, names, pmids) == count ? 0 : PM_ERR_NAME);
    check(format, pmLookupDescs(count, pmids, descs) == count ? 0 : PM_ERR_PMID);
    for (int i = 0; i < count; i++)
        types[i] = descs[i].type;
    free(texts);
    free(names);
    free(descs);
}

static double number(const pmValueSet *set, int at, int type)
{
    const pmValue *value = &set->vlist[at];
    const void *bytes = set->valfmt == PM_VAL_INSITU ? (const void *)&value->value.lval
                                                     : (const void *)value->value.pval->vbuf;
    union { int i32; unsigned u32; long long i64; unsigned long long u64; float f; double d; } any;
    memcpy(&any, bytes, type == PM_TYPE_32 || type == PM_TYPE_U32 || type == PM_TYPE_FLOAT ? 4 : 8);
    switch (type) {
    case PM_TYPE_32: return any.i32;
    case PM_TYPE_U32: return any.u32;
    case PM_TYPE_64: return any.i64;
    case PM_TYPE_U64: return any.u64;
    case PM_TYPE_FLOAT: return any.f;
    default: return any.d;
    }
}

static pmResult *fetch(int count)
{
    pmResult *result;
    int code;
    if ((code = pmFetch(count, pmids, &result)) < 0)
        fail("pmFetch", code);
    return result;
}

static void read_all(const pmResult *result)
{
    values = 0;
    for (int m = 0; m < result->numpmid; m++)
        for (int i = 0; i < result->vset[m]->numval; i++) {
            sum += number(result->vset[m], i, types[m]);
            values++;
        }
}

static void in_child(void (*work)(char *), char *arguments)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        work(arguments);
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

static void time_register(char *unused)
{
    (void)unused;
    open_context();
    long long start = now();
    register_all();
    look_up("d.n%d", expression_count);
    pmFreeResult(fetch(expression_count));
    printf("%lld\n", now() - start);
}

static void time_fetches(const char *format, int count, int fetches, int reads)
{
    long long start = now(), first = 0;
    open_context();
    look_up(format, count);
    for (int n = 0; n < fetches; n++) {
        if (n == 2)
            start = now();
        pmResult *result = fetch(count);
        if (reads)
            read_all(result);
        pmFreeResult(result);
        if (n == 0)
            first = now() - start;
    }
    printf("%lld\t%lld\t%lld\n", first, (now() - start) / (fetches - 2), values);
}

static void time_derived(char *arguments)
{
    register_all();
    time_fetches("d.n%d", expression_count, atoi(arguments), 1);
}

static void time_operands(char *arguments)
{
    int count = strtol(arguments, &arguments, 10);
    time_fetches(operands, count, atoi(arguments), 0);
}

static void save(const pmResult *result, const char *file)
{
    FILE *out = fopen(file, "w");
    if (out == NULL)
        fail(file, 0);
    for (int m = 0; m < result->numpmid; m++) {
        const pmValueSet *set = result->vset[m];
        fwrite(&set->numval, sizeof set->numval, 1, out);
        for (int i = 0; i < set->numval; i++) {
            double value = number(set, i, types[m]);
            fwrite(&set->vlist[i].inst, 4, 1, out);
            fwrite(&value, sizeof value, 1, out);
        }
    }
    if (fclose(out) != 0)
        fail(file, 0);
    printf("%.9f\n", kept_seconds);
}

static void keep(void)
{
    pmResult *result = fetch(expression_count);
    if (kept != NULL) {
        kept_seconds = (result->timestamp.tv_sec - kept->timestamp.tv_sec)
                       + (result->timestamp.tv_usec - kept->timestamp.tv_usec) * 1e-6;
        pmFreeResult(kept);
    }
    kept = result;
}

static void save_values(char *arguments)
{
    int fetches = strtol(arguments, &arguments, 10);
    register_all();
    open_context();
    look_up("d.n%d", expression_count);
    while (fetches-- > 0)
        keep();
    save(kept, arguments + 1);
}

int main(void)
{
    static char line[1 << 16];
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    setenv("PCP_DERIVED_CONFIG", "", 1);
    while (fgets(line, sizeof line, stdin) != NULL) {
        char *rest = line, *command = strsep(&rest, "\t\n");
        if (rest != NULL)
            rest[strcspn(rest, "\n")] = '\0';
        if (strcmp(command, "archive") == 0) {
            char *path = strsep(&rest, "\t");
            int metrics = atoi(strsep(&rest, "\t")), instances = atoi(strsep(&rest, "\t"));
            make_archive(path, metrics, instances, atoi(rest));
            printf("ok\n");
        } else if (strcmp(command, "source") == 0) {
            source_type = strcmp(strsep(&rest, "\t"), "host") == 0 ? PM_CONTEXT_HOST : PM_CONTEXT_ARCHIVE;
            strncpy(source, rest, sizeof source - 1);
            printf("ok\n");
        } else if (strcmp(command, "operands") == 0) {
            operands = strdup(rest);
            printf("ok\n");
        } else if (strcmp(command, "expression") == 0 && expression_count < MAX_EXPRESSIONS) {
            expressions[expression_count++] = strdup(rest);
            printf("ok\n");
        } else if (strcmp(command, "register") == 0) {
            in_child(time_register, rest);
        } else if (strcmp(command, "derived") == 0) {
            in_child(time_derived, rest);
        } else if (strcmp(command, "operands_only") == 0) {
            in_child(time_operands, rest);
        } else if (strcmp(command, "values") == 0) {
            in_child(save_values, rest);
        } else {
            fail("unknown command", 0);
        }
        fflush(stdout);
    }
    return 0;
}
