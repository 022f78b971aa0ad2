"""
Comparable rows of a data frame
===============================

A table has numbers and categories, and some values are missing. scikit-learn's
``ColumnTransformer`` turns its rows into vectors, a quantizer turns the vectors into
codes, and `HashedNeighbors` combines both into one search: it takes rows of a data
frame and returns the most similar rows. Here it estimates what a used car is worth.
"""

# %%
# A table of cars
# ---------------
#
# The data are synthetic: the price of a car depends on its price when new, its age, its
# mileage, its fuel, and on luck.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skhash import AdditiveQuantizer, HashedNeighbors

rng = np.random.default_rng(0)
N = 5000
new_prices = {"hatchback": 18, "saloon": 31, "estate": 34, "van": 40, "coupé": 52}
body = rng.choice(list(new_prices), N)
fuel = rng.choice(["petrol", "diesel", "electric"], N, p=[0.5, 0.35, 0.15])
years = rng.gamma(2.5, 2.5, N).clip(0, 25)
kilometres = (years * rng.gamma(8, 1.8, N)).round(1) * (1 + 0.5 * (fuel == "diesel"))
power = (rng.normal(60, 12, N) + pd.Series(body).map(new_prices) * 1.5).round()
keeps = np.where(fuel == "electric", 0.82, 0.88) ** years * 0.9975**kilometres
luck = rng.lognormal(0, 0.1, N)
cars = pd.DataFrame(
    {
        "body": body,
        "fuel": fuel,
        "years": years.round(1),
        "1000 km": kilometres.round(1),
        "kW": power,
        "price": (1000 * pd.Series(body).map(new_prices) * keeps * luck).round(-1),
    }
)
cars.loc[rng.random(N) < 0.1, "1000 km"] = np.nan
print(cars.head().to_string())

# %%
# A search of rows
# ----------------
#
# The price is not part of the comparison.

vectors = make_column_transformer(
    (OneHotEncoder(), ["body", "fuel"]),
    (make_pipeline(SimpleImputer(), StandardScaler()), ["years", "1000 km", "kW"]),
)
offers, asked = train_test_split(cars, test_size=500, random_state=0)
search = HashedNeighbors(make_pipeline(vectors, AdditiveQuantizer(4)), n_neighbors=40)
search.fit(offers.drop(columns="price"))

mine = asked[asked["years"].between(4, 6)].iloc[[0]]
distances, positions = search.kneighbors(mine.drop(columns="price"))
comparable = offers.iloc[positions[0]]
print(mine.to_string(), end="\n\n")
print(comparable.head(6).to_string())

# %%
# A price for each car
# --------------------
#
# In a pipeline, the search passes its neighbours to scikit-learn's regressor. For
# comparison, the second pipeline finds the neighbours with the vectors themselves.

N_NEIGHBORS = 15
prices = {
    "4 bytes": make_pipeline(
        vectors,
        HashedNeighbors(4, n_neighbors=N_NEIGHBORS),
        KNeighborsRegressor(N_NEIGHBORS, metric="precomputed"),
    ),
    "vectors": make_pipeline(vectors, KNeighborsRegressor(N_NEIGHBORS)),
}
for name, model in prices.items():
    model.fit(offers.drop(columns="price"), offers["price"])
    score = model.score(asked.drop(columns="price"), asked["price"])
    print(f"{name}: {score:.2f} of the variance of prices is explained")

# %%
# The picture
# -----------

figure, axes = plt.subplots(
    1, 2, figsize=(9, 3.8), width_ratios=[3, 2], layout="constrained"
)
ALL, FOUND, MINE = "0.8", "#1b6ca8", "#d95f02"
axes[0].scatter(offers["years"], offers["price"] / 1000, s=3, color=ALL)
axes[0].scatter(comparable["years"], comparable["price"] / 1000, s=18, color=FOUND)
axes[0].scatter(mine["years"], mine["price"] / 1000, s=90, color=MINE, marker="*")
axes[0].set(xlabel="years", ylabel="price, thousands", xlim=(0, 20), ylim=(0, 60))
kind = f"{mine['body'].item()}, {mine['fuel'].item()}"
axes[0].set_title(f"40 cars most similar to this one ({kind})", fontsize="medium")
bins = np.arange(0, 60, 2)
for some, color, label in (offers, ALL, "all"), (comparable, FOUND, "most similar"):
    axes[1].hist(some["price"] / 1000, bins, density=True, color=color, label=label)
axes[1].axvline(mine["price"].item() / 1000, color=MINE, label="its price, held out")
axes[1].set(xlabel="price, thousands", yticks=[])
axes[1].legend(frameon=False)
for ax in axes:
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
