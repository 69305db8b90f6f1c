// What a list finds, and its order: pure, for any kind of rows.

/** `vm9` comes before `vm10`. */
const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

/** Whether one of the texts contains `wanted`, or has it as its pattern where it has `*` or `?`. */
export function matcher(wanted: string): (texts: string[]) => boolean {
  const plain = wanted.trim().toLowerCase();
  if (plain === "") return () => true;
  if (!/[*?]/.test(plain)) return (texts) => texts.some((text) => text.toLowerCase().includes(plain));
  return (texts) => texts.some((text) => isLike(plain, text.toLowerCase()));
}

/** Whether `text` has the pattern, in time that grows with the product of their lengths: an address can contain any pattern. */
function isLike(pattern: string, text: string): boolean {
  let [at, here, star, resumed] = [0, 0, -1, 0];
  while (here < text.length) {
    if (pattern[at] === "*") {
      star = at++;
      resumed = here;
    } else if (pattern[at] === "?" || pattern[at] === text[here]) {
      at++;
      here++;
    } else if (star >= 0) {
      at = star + 1;
      here = ++resumed;
    } else {
      return false;
    }
  }
  return /^\**$/.test(pattern.slice(at));
}

export type Ordered = string | number | null | undefined;

const isNone = (value: Ordered): value is null | undefined => value === null || value === undefined;

function compare(one: string | number, other: string | number): number {
  if (typeof one === "number" && typeof other === "number") return one - other;
  return collator.compare(String(one), String(other));
}

/** The rows by `order`; those without a value last. Equal rows retain their order, reversed in a descending one. */
export function sorted<Row>(rows: Row[], order: (row: Row) => Ordered, isDescending: boolean): Row[] {
  const sign = isDescending ? -1 : 1;
  return rows
    .map((row, index) => ({ row, index, value: order(row) }))
    .sort((one, other) => {
      if (isNone(one.value) || isNone(other.value)) {
        return Number(isNone(one.value)) - Number(isNone(other.value)) || sign * (one.index - other.index);
      }
      return sign * (compare(one.value, other.value) || one.index - other.index);
    })
    .map(({ row }) => row);
}
