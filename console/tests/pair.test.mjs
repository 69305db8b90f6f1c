// The console of an appliance of two real heads, in the lab: heads and pools, a pulled cable, a move, the power of a
// head pulled, and the way back.

import { twoHeads } from "./world/two-heads.mjs";
import {
  asksTheOtherHead, isAccessibleAfterIt, measuresPower, movesBackByKeyboard, movesPool, showsBothHeads, showsPulledCable, showsTakeover,
} from "./journeys/pair.mjs";

const { journey, keepsToItself } = twoHeads();

journey("both heads are shown, with their pools and the links between them", showsBothHeads);
journey("the power and the temperature of both heads are measured", measuresPower);
journey("a pulled cable is shown, and nothing moves", showsPulledCable);
journey("a pool is moved to the other head, and how that went is shown", movesPool);
journey("a pool on the other head is managed from this one", asksTheOtherHead);
journey("the power of a head is pulled, and the takeover is shown step by step", showsTakeover);
journey("that page is accessible, light and dark, wide and narrow", isAccessibleAfterIt);
journey("the head returns and gets the pool by keyboard alone, on a phone", movesBackByKeyboard);

keepsToItself("no page of a pair sends a request to any other host");
