/*
 * Oracle for derived metrics: libpcp over an archive made on the spot, driven by lines on stdin, one line
 * of answer each. Fields are separated by tabs.
 *
 *   archive PATH                        begins an archive
 *   metric NAME TYPE SEM INDOM UNITS    adds a metric (numbers; INDOM 4294967295 for none, UNITS a word)
 *   instance INDOM ID NAME              adds an instance
 *   value NAME INSTNAME TEXT            a value of the next record (INSTNAME - for none)
 *   write SEC USEC                      ends a record
 *   open                                ends the archive and opens a context on it
 *   reset                               a new context, without definitions of its own
 *   add NAME EXPR                       "err OFFSET TEXT", or "ok TYPE SEM INDOM UNITS", or "bad CODE"
 *   fetch ALWAYS NAME...                the next record: "SEC NSEC" and a value set for each name:
 *                                       its numval, or INST=BITS,... (hexadecimal), or nan for not-a-number
 *   register NAME EXPR                  registers for all contexts: "ok" or "err OFFSET TEXT"
 *
 * Built with: cc derive_oracle.c -lpcp -ldl
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pcp/pmapi.h>

/* From libpcp_import, whose header is in a package of its own. */
static int (*import_start)(const char *, int);
static int (*import_metric)(const char *, pmID, int, pmInDom, int, pmUnits);
static int (*import_instance)(pmInDom, const char *, int);
static int (*import_value)(const char *, const char *, const char *);
static int (*import_write)(int, int);
static int (*import_end)(void);

static char path[4096];
static int next_item;

static void fail(const char *why, int code)
{
    printf("oracle: %s: %s\n", why, code < 0 ? pmErrStr(code) : "");
    exit(1);
}

static void *symbol(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (found == NULL)
        fail(name, 0);
    return found;
}

static const char *field(void)
{
    const char *text = strtok(NULL, "\t\n");
    return text != NULL ? text : "";
}

static unsigned long number(void)
{
    return strtoul(field(), NULL, 0);
}

static void check(const char *what, int code)
{
    if (code < 0)
        fail(what, code);
    printf("ok\n");
}

static void open_context(void)
{
    int context = pmNewContext(PM_CONTEXT_ARCHIVE, path);
    struct timeval start = { 0, 0 };
    if (context < 0)
        fail("pmNewContext", context);
    if (pmSetMode(PM_MODE_FORW, &start, 0) < 0)
        fail("pmSetMode", 0);
}

static void print_desc(const char *name)
{
    pmID pmid;
    pmDesc desc;
    uint32_t units = 0;
    int code = pmLookupName(1, &name, &pmid);
    if (code >= 0)
        code = pmLookupDesc(pmid, &desc);
    if (code < 0) {
        printf("bad %d\n", code);
        return;
    }
    memcpy(&units, &desc.units, sizeof units);
    printf("ok %d %d %u %u\n", desc.type, desc.sem, desc.indom, units);
}

static void print_value(const pmValueSet *set, const pmValue *value)
{
    if (set->valfmt == PM_VAL_INSITU) {
        printf("%d=%x", value->inst, (unsigned)value->value.lval);
    } else {
        const pmValueBlock *block = value->value.pval;
        uint64_t bits = 0;
        float single;
        double number;
        if (block->vtype == PM_TYPE_STRING) {
            printf("%d=", value->inst);
            for (const char *c = block->vbuf; *c != '\0'; c++)
                printf("%02x", (unsigned char)*c);
            return;
        }
        memcpy(&bits, block->vbuf, block->vlen - PM_VAL_HDR_SIZE <= 8 ? block->vlen - PM_VAL_HDR_SIZE : 8);
        memcpy(&single, block->vbuf, sizeof single);
        memcpy(&number, &bits, sizeof number);
        if ((block->vtype == PM_TYPE_FLOAT && isnan(single)) || (block->vtype == PM_TYPE_DOUBLE && isnan(number)))
            printf("%d=nan", value->inst);
        else
            printf("%d=%llx", value->inst, (unsigned long long)bits);
    }
}

static void fetch(void)
{
    enum { MAX_NAMES = 4096 };
    static const char *names[MAX_NAMES];
    static pmID pmids[MAX_NAMES];
    pmResult *result;
    int count = 0, code;
    const char *name;
    while (count < MAX_NAMES && *(name = field()) != '\0')
        names[count++] = name;
    for (int i = 0; i < count; i++)
        if ((code = pmLookupName(1, &names[i], &pmids[i])) < 0)
            fail(names[i], code);
    if ((code = pmFetch(count, pmids, &result)) < 0)
        fail("pmFetch", code);
    printf("%ld %ld", (long)result->timestamp.tv_sec, (long)result->timestamp.tv_usec * 1000);
    for (int i = 1; i < count; i++) {
        const pmValueSet *set = result->vset[i];
        printf("\t");
        if (set->numval <= 0)
            printf("%d", set->numval);
        for (int j = 0; j < set->numval; j++) {
            if (j > 0)
                printf(",");
            print_value(set, &set->vlist[j]);
        }
    }
    printf("\n");
    pmFreeResult(result);
}

int main(void)
{
    static char line[1 << 20];
    static char copy[1 << 20];
    void *library = dlopen("libpcp_import.so.1", RTLD_NOW);
    if (library == NULL)
        fail("libpcp_import.so.1", 0);
    *(void **)&import_start = symbol(library, "pmiStart");
    *(void **)&import_metric = symbol(library, "pmiAddMetric");
    *(void **)&import_instance = symbol(library, "pmiAddInstance");
    *(void **)&import_value = symbol(library, "pmiPutValue");
    *(void **)&import_write = symbol(library, "pmiWrite");
    *(void **)&import_end = symbol(library, "pmiEnd");
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    setenv("PCP_DERIVED_CONFIG", "", 1);
    setenv("PCP_STDERR", "/dev/null", 1);
    while (fgets(line, sizeof line, stdin) != NULL) {
        strcpy(copy, line);
        const char *command = strtok(line, "\t\n");
        if (command == NULL)
            fail("empty line", 0);
        if (strcmp(command, "archive") == 0) {
            strncpy(path, field(), sizeof path - 1);
            check("pmiStart", import_start(path, 0));
        } else if (strcmp(command, "metric") == 0) {
            const char *name = field();
            int type = number(), sem = number();
            pmInDom indom = number();
            uint32_t word = number();
            pmUnits units;
            memcpy(&units, &word, sizeof units);
            check("pmiAddMetric", import_metric(name, pmID_build(245, 0, ++next_item), type, indom, sem, units));
        } else if (strcmp(command, "instance") == 0) {
            pmInDom indom = number();
            int id = number();
            check("pmiAddInstance", import_instance(indom, field(), id));
        } else if (strcmp(command, "value") == 0) {
            const char *name = field(), *inst = field();
            check("pmiPutValue", import_value(name, strcmp(inst, "-") == 0 ? "" : inst, field()));
        } else if (strcmp(command, "write") == 0) {
            int sec = number();
            check("pmiWrite", import_write(sec, number()));
        } else if (strcmp(command, "open") == 0) {
            int code = import_end();
            open_context();
            check("pmiEnd", code);
        } else if (strcmp(command, "reset") == 0) {
            pmDestroyContext(pmWhichContext());
            open_context();
            printf("ok\n");
        } else if (strcmp(command, "add") == 0 || strcmp(command, "register") == 0) {
            const char *name = field();
            char *expr = strchr(strchr(copy, '\t') + 1, '\t') + 1;
            expr[strcspn(expr, "\n")] = '\0';
            const char *where = *command == 'a' ? pmAddDerived(name, expr) : pmRegisterDerived(name, expr);
            if (where != NULL)
                printf("err %ld %s\n", (long)(where - expr), pmDerivedErrStr() != NULL ? pmDerivedErrStr() : "-");
            else if (*command == 'a')
                print_desc(name);
            else
                printf("ok\n");
        } else if (strcmp(command, "fetch") == 0) {
            fetch();
        } else {
            fail("unknown command", 0);
        }
        fflush(stdout);
    }
    return 0;
}
