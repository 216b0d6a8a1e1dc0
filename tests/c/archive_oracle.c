/*
 * Oracle of the archive tests: what libpcp says about an archive. One line in, one line out; texts in hex.
 *
 *   open NAME                    label, or "err CODE"
 *   version                      libpcp's
 *   end                          seconds nanoseconds
 *   names                        name=pmid ... in the order of traversal
 *   desc PMID                    type indom semantics units name,name,...
 *   indom INDOM                  id:name ... of the whole archive
 *   instances INDOM              id:name ... at the origin
 *   text PMID|INDOM LEVEL        (LEVEL with PM_TEXT_PMID or PM_TEXT_INDOM)
 *   labels KIND IDENT            inst:json:labels ...
 *   mode MODE SEC NSEC DSEC DNSEC
 *   next                         pmFetchHighResArchive: time, number of metrics, hash of the rest
 *   fetch PMID ...               pmFetchHighRes
 *   profile INDOM INST ...       only these instances
 *   noprofile
 *   time FETCHES PMID ...        processor time of so many fetches in nanoseconds, and how many there were
 *   sizes FETCHES PMID ...       of so many fetches, how many numbers there were, and the sum of their sizes
 *   scan                         the same as time for pmFetchHighResArchive up to the end
 *   sum                          the same, adding up all numbers as bits, and the sum
 *
 * Built with: cc -O2 archive_oracle.c -lpcp
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <arpa/inet.h>
#include <pcp/pmapi.h>

static void hex(const void *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        printf("%02x", ((const unsigned char *)bytes)[i]);
}

static void in_place(const pmValue *value)
{
    printf("%08x", (unsigned int)value->value.lval);
}

static void block(const pmValueBlock *block)
{
    unsigned long long number = 0;
    unsigned int word = 0;

    printf("%d/%d/", block->vtype, block->vlen);
    switch (block->vtype) {
    case PM_TYPE_64:
    case PM_TYPE_U64:
    case PM_TYPE_DOUBLE:
        memcpy(&number, block->vbuf, block->vlen >= 12 ? 8 : 0);
        printf("%016llx", number);
        break;
    case PM_TYPE_FLOAT:
        memcpy(&word, block->vbuf, block->vlen >= 8 ? 4 : 0);
        printf("%08x", word);
        break;
    case PM_TYPE_EVENT:
    case PM_TYPE_HIGHRES_EVENT:
        memcpy(&word, block->vbuf, block->vlen >= 8 ? 4 : 0);
        printf("%u", word);
        break;
    default:
        hex(block->vbuf, block->vlen - PM_VAL_HDR_SIZE);
    }
}

static void result(const pmHighResResult *result)
{
    printf("%lld.%09ld %d", (long long)result->timestamp.tv_sec, (long)result->timestamp.tv_nsec, result->numpmid);
    for (int i = 0; i < result->numpmid; i++) {
        const pmValueSet *set = result->vset[i];
        printf(" %u:%d", set->pmid, set->numval);
        for (int j = 0; j < set->numval; j++) {
            printf(",%d=", set->vlist[j].inst);
            if (set->valfmt == PM_VAL_INSITU)
                in_place(&set->vlist[j]);
            else
                block(set->vlist[j].value.pval);
        }
    }
    putchar('\n');
}

/* FNV-1a over 32-bit words, which is quick on both sides */
static unsigned long long digest;

static void add_word(unsigned int word)
{
    digest = (digest ^ word) * 0x100000001b3ULL;
}

static void add_bytes(const unsigned char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i += 4) {
        unsigned int word = 0;
        memcpy(&word, bytes + i, len - i < 4 ? len - i : 4);
        add_word(ntohl(word));
    }
}

static void add_block(const pmValueBlock *block)
{
    unsigned long long number = 0;
    unsigned int word = 0;

    add_word((unsigned int)block->vtype << 24 | block->vlen);
    switch (block->vtype) {
    case PM_TYPE_64:
    case PM_TYPE_U64:
    case PM_TYPE_DOUBLE:
        memcpy(&number, block->vbuf, block->vlen >= 12 ? 8 : 0);
        add_word(number >> 32);
        add_word(number);
        break;
    case PM_TYPE_FLOAT:
    case PM_TYPE_EVENT:
    case PM_TYPE_HIGHRES_EVENT:
        memcpy(&word, block->vbuf, block->vlen >= 8 ? 4 : 0);
        add_word(word);
        break;
    default:
        add_bytes((const unsigned char *)block->vbuf, block->vlen - PM_VAL_HDR_SIZE);
    }
}

static void record(const pmHighResResult *result)
{
    digest = 0xcbf29ce484222325ULL;
    for (int i = 0; i < result->numpmid; i++) {
        const pmValueSet *set = result->vset[i];
        add_word(set->pmid);
        add_word(set->numval);
        for (int j = 0; j < set->numval; j++) {
            add_word(set->vlist[j].inst);
            if (set->valfmt == PM_VAL_INSITU)
                add_word(set->vlist[j].value.lval);
            else
                add_block(set->vlist[j].value.pval);
        }
    }
    printf("%lld.%09ld %d %016llx\n", (long long)result->timestamp.tv_sec, (long)result->timestamp.tv_nsec,
           result->numpmid, digest);
}

static char names[1 << 22];
static size_t names_len;

static void each_name(const char *name)
{
    names_len += snprintf(names + names_len, sizeof(names) - names_len, " %s", name);
}

static void label_sets(int sts, pmLabelSet *sets)
{
    printf("%d", sts);
    for (int i = 0; i < sts; i++) {
        printf(" %d:%d:", (int)sets[i].inst, sets[i].nlabels);
        for (int j = 0; j < sets[i].nlabels; j++) {
            const pmLabel *label = &sets[i].labels[j];
            hex(sets[i].json + label->name, label->namelen);
            putchar('=');
            hex(sets[i].json + label->value, label->valuelen);
            printf("/%d,", label->flags);
        }
    }
    putchar('\n');
}

static void instances(int sts, int *ids, char **inst_names)
{
    printf("%d", sts);
    for (int i = 0; i < sts; i++) {
        printf(" %d:", ids[i]);
        hex(inst_names[i], strlen(inst_names[i]));
    }
    putchar('\n');
    if (sts > 0) {
        free(ids);
        free(inst_names);
    }
}

static long long now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static int numbers(char *text, unsigned int *into, int max)
{
    int count = 0;
    for (char *word = strtok(text, " "); word != NULL && count < max; word = strtok(NULL, " "))
        into[count++] = strtoul(word, NULL, 10);
    return count;
}

/* all numbers of a result, as bits */
static unsigned long long sum_of(const pmHighResResult *result)
{
    unsigned long long sum = 0;

    for (int i = 0; i < result->numpmid; i++) {
        const pmValueSet *set = result->vset[i];
        for (int j = 0; j < set->numval; j++) {
            const pmValueBlock *block = set->vlist[j].value.pval;
            unsigned long long number;
            unsigned int word;
            if (set->valfmt == PM_VAL_INSITU) {
                sum += (unsigned int)set->vlist[j].value.lval;
            } else if (block->vlen == 12) {
                memcpy(&number, block->vbuf, 8);
                sum += number;
            } else {
                memcpy(&word, block->vbuf, 4);
                sum += word;
            }
        }
    }
    return sum;
}

/* the sizes of all numbers of a result */
static double sizes_of(const pmHighResResult *result, const int *types, long long *count)
{
    double sum = 0;

    for (int i = 0; i < result->numpmid; i++) {
        const pmValueSet *set = result->vset[i];
        for (int j = 0; j < set->numval; j++) {
            pmAtomValue atom;
            if (pmExtractValue(set->valfmt, &set->vlist[j], types[i], &atom, PM_TYPE_DOUBLE) >= 0) {
                sum += atom.d < 0 ? -atom.d : atom.d;
                (*count)++;
            }
        }
    }
    return sum;
}

static unsigned int list[100000];
static int types[100000];

int main(void)
{
    static char line[1 << 20];
    int context = -1, sts;

    /* no derived metrics of the machine */
    setenv("PCP_DERIVED_CONFIG", "", 1);

    while (fgets(line, sizeof(line), stdin) != NULL) {
        char *rest = strchr(line, ' ');
        line[strcspn(line, "\n")] = '\0';
        if (rest != NULL)
            *rest++ = '\0';
        if (strcmp(line, "open") == 0) {
            pmHighResLogLabel label;
            if (context >= 0)
                pmDestroyContext(context);
            context = sts = pmNewContext(PM_CONTEXT_ARCHIVE, rest);
            if (sts >= 0)
                sts = pmGetHighResArchiveLabel(&label);
            if (sts < 0)
                printf("err %d\n", sts);
            else
                printf("%d %d %lld.%09ld %s %s\n", label.magic & 0xff, (int)label.pid, (long long)label.start.tv_sec,
                        (long)label.start.tv_nsec, label.hostname, label.timezone);
        } else if (strcmp(line, "end") == 0) {
            struct timespec end;
            sts = pmGetHighResArchiveEnd(&end);
            if (sts < 0)
                printf("err %d\n", sts);
            else
                printf("%lld.%09ld\n", (long long)end.tv_sec, (long)end.tv_nsec);
        } else if (strcmp(line, "names") == 0) {
            names_len = 0;
            sts = pmTraversePMNS("", each_name);
            printf("%d%s\n", sts, names_len ? names : "");
        } else if (strcmp(line, "desc") == 0) {
            unsigned int units;
            pmDesc desc;
            char **all;
            pmID pmid = strtoul(rest, NULL, 10);
            if ((sts = pmLookupDesc(pmid, &desc)) < 0) {
                printf("err %d\n", sts);
            } else {
                memcpy(&units, &desc.units, sizeof(units));
                printf("%d %u %d %d.%d.%d.%u.%u.%d ", desc.type, desc.indom, desc.sem, desc.units.dimSpace,
                        desc.units.dimTime, desc.units.dimCount, desc.units.scaleSpace, desc.units.scaleTime,
                        desc.units.scaleCount);
                sts = pmNameAll(pmid, &all);
                for (int i = 0; i < sts; i++)
                    printf("%s,", all[i]);
                putchar('\n');
                if (sts > 0)
                    free(all);
            }
        } else if (strcmp(line, "indom") == 0) {
            int *ids;
            char **inst_names;
            sts = pmGetInDomArchive(strtoul(rest, NULL, 10), &ids, &inst_names);
            instances(sts, ids, inst_names);
        } else if (strcmp(line, "instances") == 0) {
            int *ids;
            char **inst_names;
            sts = pmGetInDom(strtoul(rest, NULL, 10), &ids, &inst_names);
            instances(sts, ids, inst_names);
        } else if (strcmp(line, "text") == 0) {
            char *text;
            numbers(rest, list, 2);
            sts = list[1] & PM_TEXT_PMID ? pmLookupText(list[0], list[1], &text)
                                         : pmLookupInDomText(list[0], list[1], &text);
            printf("%d ", sts);
            if (sts >= 0) {
                hex(text, strlen(text));
                free(text);
            }
            putchar('\n');
        } else if (strcmp(line, "labels") == 0) {
            pmLabelSet *sets = NULL;
            numbers(rest, list, 2);
            switch (list[0]) {
            case PM_LABEL_CONTEXT: sts = pmGetContextLabels(&sets); break;
            case PM_LABEL_DOMAIN: sts = pmGetDomainLabels(list[1], &sets); break;
            case PM_LABEL_INDOM: sts = pmGetInDomLabels(list[1], &sets); break;
            case PM_LABEL_CLUSTER: sts = pmGetClusterLabels(list[1], &sets); break;
            case PM_LABEL_ITEM: sts = pmGetItemLabels(list[1], &sets); break;
            default: sts = pmGetInstancesLabels(list[1], &sets);
            }
            label_sets(sts, sets);
            if (sts > 0)
                pmFreeLabelSets(sets, sts);
        } else if (strcmp(line, "version") == 0) {
            puts(pmGetConfig("PCP_VERSION"));
        } else if (strcmp(line, "mode") == 0) {
            long long words[5] = { 0 };
            sscanf(rest, "%lld %lld %lld %lld %lld", &words[0], &words[1], &words[2], &words[3], &words[4]);
            struct timespec when = { .tv_sec = words[1], .tv_nsec = words[2] };
            struct timespec delta = { .tv_sec = words[3], .tv_nsec = words[4] };
            printf("%d\n", pmSetModeHighRes(words[0], &when, &delta));
        } else if (strcmp(line, "next") == 0 || strcmp(line, "fetch") == 0) {
            pmHighResResult *got;
            if (line[0] == 'n') {
                sts = pmFetchHighResArchive(&got);
            } else {
                int count = numbers(rest, list, 100000);
                sts = pmFetchHighRes(count, list, &got);
            }
            if (sts < 0) {
                printf("err %d\n", sts);
            } else {
                line[0] == 'n' ? record(got) : result(got);
                pmFreeHighResResult(got);
            }
        } else if (strcmp(line, "profile") == 0) {
            int count = numbers(rest, list, 100000);
            pmDelProfile(list[0], 0, NULL);
            printf("%d\n", pmAddProfile(list[0], count - 1, (int *)&list[1]));
        } else if (strcmp(line, "noprofile") == 0) {
            printf("%d\n", pmAddProfile(PM_INDOM_NULL, 0, NULL));
        } else if (strcmp(line, "time") == 0) {
            int count = numbers(rest, list, 100000), done = 0;
            long long start = now();
            for (unsigned int i = 0; i < list[0]; i++) {
                pmHighResResult *got;
                if (pmFetchHighRes(count - 1, &list[1], &got) < 0)
                    break;
                done++;
                pmFreeHighResResult(got);
            }
            printf("%lld %d\n", now() - start, done);
        } else if (strcmp(line, "sizes") == 0) {
            int metrics = numbers(rest, list, 100000) - 1;
            long long count = 0;
            double sum = 0;
            for (int i = 0; i < metrics; i++) {
                pmDesc desc;
                types[i] = pmLookupDesc(list[i + 1], &desc) < 0 ? PM_TYPE_UNKNOWN : desc.type;
            }
            for (unsigned int i = 0; i < list[0]; i++) {
                pmHighResResult *got;
                if (pmFetchHighRes(metrics, &list[1], &got) < 0)
                    break;
                sum += sizes_of(got, types, &count);
                pmFreeHighResResult(got);
            }
            printf("%lld %.17g\n", count, sum);
        } else if (strcmp(line, "scan") == 0 || strcmp(line, "sum") == 0) {
            pmHighResResult *got;
            int summing = line[1] == 'u';
            unsigned long long sum = 0;
            long long start = now(), records = 0;
            while (pmFetchHighResArchive(&got) >= 0) {
                records++;
                if (summing)
                    sum += sum_of(got);
                pmFreeHighResResult(got);
            }
            printf("%lld %lld %llu\n", now() - start, records, sum);
        } else {
            printf("oracle: unknown command %s\n", line);
        }
        fflush(stdout);
    }
    return 0;
}
